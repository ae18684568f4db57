"""Fault plans: what is refused, and that choices are stable."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from groupage.emulator import finish
from groupage.emulator.__main__ import plan_path
from groupage.emulator.faults import BadPlan, chosen, load_plan, read_plan, seed_of


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"requests": [{"kind": "htp", "share": 0.1}]}, "requests.0.kind"),
        ({"requests": [{"kind": "http"}]}, "say which requests"),
        ({"requests": [{"kind": "http", "share": 1.5}]}, "requests.0.share"),
        ({"requests": [{"kind": "http", "share": 0.1, "tims": 2}]}, "requests.0.tims"),
        ({"calls": [{"call": "batch.create", "action": "error"}]}, "calls.0.call"),
        ({"calls": [{"call": "sync", "action": "lag"}]}, "lag is for files.create and batches.create"),
        ({"calls": [{"call": "sync", "action": "slow", "seconds": "soon"}]}, "is not a duration"),
        ({"batches": [{"effect": "late_output"}]}, "late_output needs seconds"),
        ({"bathces": []}, "bathces"),
        ([], "the plan"),
    ],
)
def test_a_bad_plan_is_refused_with_the_place_of_the_mistake(plan, said):
    with pytest.raises(BadPlan, match=said.replace(".", r"\.")):
        read_plan(plan)


def test_a_file_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("{")
    with pytest.raises(BadPlan, match=r"plan\.json"):
        load_plan(path)
    with pytest.raises(BadPlan, match=r"nowhere\.json"):
        load_plan(tmp_path / "nowhere.json")


def test_the_demo_plan_holds_what_the_demo_promises(tmp_path):
    plan = load_plan(plan_path(tmp_path.__class__("demo")))
    assert {(rule.kind, rule.status) for rule in plan.requests} >= {("http", 429), ("http", 500), ("http", 400)}
    assert {rule.kind for rule in plan.requests} >= {"expired", "truncated", "refused"}
    assert ("batches.create", "drop_after") in {(rule.call, rule.action) for rule in plan.calls}
    assert {rule.effect for rule in plan.batches} == {"expire", "stall"}


def test_the_choice_by_share_is_stable_fair_and_the_same_for_batches_and_sync_calls():
    questions = np.random.default_rng(5).integers(0, 2**64, 20_000, dtype=np.uint64)
    one_by_one = np.array([chosen(0.03, 9, "rule", int(question)) for question in questions])
    mixed = finish._mix(questions ^ np.uint64(seed_of(9, "rule")))
    assert (one_by_one == (mixed < np.uint64(0.03 * 2**64))).all()
    assert 500 < one_by_one.sum() < 700
    other = np.array([chosen(0.03, 10, "rule", int(question)) for question in questions])
    assert (one_by_one & other).sum() < 100


def test_equal_rules_have_equal_fingerprints():
    first, second, third = read_plan(
        json.loads('{"requests":[{"kind":"http","share":0.1},{"share":0.1,"kind":"http"},{"kind":"http","share":0.2}]}')
    ).requests
    assert first.fingerprint == second.fingerprint != third.fingerprint


def test_a_fingerprint_is_the_same_in_every_process():
    # Sets of texts are ordered by a hash that differs from process to process.
    code = (
        "from groupage.emulator.faults import read_plan;"
        "plan = read_plan({'requests': [{'kind': 'http', 'share': 0.1}], "
        "'calls': [{'call': 'sync', 'action': 'slow', 'nth': [9, 1, 5]}]});"
        "print(plan.requests[0].fingerprint, plan.calls[0].fingerprint)"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(seen) == 1


def test_the_order_in_which_a_plan_names_numbers_does_not_matter():
    plans = [read_plan({"calls": [{"call": "sync", "action": "error", "nth": nth}]}) for nth in ([9, 1, 5], [5, 9, 1])]
    assert plans[0].calls[0].fingerprint == plans[1].calls[0].fingerprint
