"""A misspelt field is refused where people write, and skipped where Groupage reads what it wrote."""

import pytest
from groupage.schemas import CancelInput, JobPolicy, JobSpec, Request
from groupage.schemas.activity_calls import PrepareJob, SweepOrphans
from groupage.schemas.written import unknown_fields
from groupage.workflows.memory import JobArgument
from pydantic import ValidationError

NOW = "2026-11-29T12:00:00Z"


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        (JobPolicy, {"max_cost": 5}, "unknown field max_cost: did you mean max_cost_usd?"),
        (JobPolicy, {"max_round": 1}, "unknown field max_round: did you mean max_rounds?"),
        (JobSpec, {"key": "k", "input_ulr": "file:///in"}, "unknown field input_ulr: did you mean input_url?"),
        (Request, {"id": "1", "body": {}, "lables": {}}, "unknown field lables: did you mean labels?"),
        (CancelInput, {"raeson": "late"}, "unknown field raeson: did you mean reason?"),
        (SweepOrphans, {"provider": "openai", "dryrun": True}, "unknown field dryrun: did you mean dry_run?"),
    ],
)
def test_python_refuses_a_misspelt_field_with_the_likeliest_and_all_known(kind, given, meant):
    for make in (lambda: kind(**given), lambda: kind.model_validate(given)):
        with pytest.raises(ValidationError) as caught:
            make()
        assert meant in str(caught.value)
        assert all(name in str(caught.value) for name in kind.model_fields)


def test_a_policy_within_a_job_is_looked_at_too():
    with pytest.raises(ValidationError, match="did you mean max_rounds"):
        JobSpec.model_validate({"key": "k", "policy": {"max_round": 1}})


def test_a_field_that_is_like_no_other_is_refused_without_a_guess():
    with pytest.raises(ValidationError, match="unknown field zzz: Known: max_rounds, "):
        JobPolicy(zzz=1)


def test_labels_may_have_any_name():
    assert JobSpec(key="k", labels={"max_cost": "x"}).labels == {"max_cost": "x"}
    assert Request(id="1", body={"temprature": 1}).body == {"temprature": 1}


def test_json_that_a_newer_version_wrote_is_read():
    spec = JobSpec.model_validate_json('{"key": "k", "newer": 1, "policy": {"newer": 2, "max_rounds": 7}}')
    assert spec.policy.max_rounds == 7
    inner = f'{{"accepted_at": "{NOW}", "spec": {{"key": "k", "newer": 1}}}}'
    assert PrepareJob.model_validate_json(inner).spec.key == "k"


def test_the_argument_of_a_job_notes_what_a_person_has_misspelt():
    found = JobArgument.model_validate_json('{"key": "k", "input_ulr": "x", "policy": {"max_cost": "1"}}').misspelt
    assert "unknown field input_ulr: did you mean input_url?" in found
    assert "unknown field policy.max_cost: did you mean policy.max_cost_usd?" in found
    # What only Groupage writes is not offered.
    assert "carried" not in found


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('"deadline": 6', "deadline 6: 6 is not a duration: write 90s, 30m, 6h"),
        ('"policy": {"settle": 5}', "policy.settle 5: 5 is not a duration"),
        ('"policy": {"turnaround": 5}', "policy.turnaround 5: 5 is not a duration"),
        ('"deadline": "9999999d"', "deadline 9999999d: too long: at most 3650d"),
        ('"policy": {"effective_for": "P9999999D"}', "policy.effective_for P9999999D: too long"),
    ],
)
def test_the_argument_of_a_job_notes_a_bare_number_and_what_is_too_long(written, told):
    assert told in JobArgument.model_validate_json(f'{{"key": "k", "input_url": "x", {written}}}').misspelt
    by_us = JobArgument.model_validate_json(f'{{"key": "k", "fingerprint": "ab", {written}}}')
    assert by_us.misspelt == "", "what an older client wrote goes on"


def test_durations_as_people_and_groupage_write_them_are_no_problem():
    given = '"deadline": "6h", "policy": {"poll": "PT30S", "turnaround": null, "settle": "0s"}'
    assert JobArgument.model_validate_json(f'{{"key": "k", "input_url": "x", {given}}}').misspelt == ""


@pytest.mark.parametrize(
    ("written", "by_us"),
    [
        ('"fingerprint": "ab"', True),
        (f'"carried": {{"accepted_at": "{NOW}", "deadline_at": "{NOW}"}}', True),
        ('"input_url": "file:///in"', False),
        ('"fingerprint": "ab", "input_url": "file:///in"', False),
    ],
)
def test_fields_of_a_newer_client_or_run_are_no_misspellings(written, by_us):
    argument = JobArgument.model_validate_json(f'{{"key": "k", "newer": 1, {written}}}')
    assert (argument.misspelt == "") is by_us


def test_a_missing_field_is_told_together_with_the_misspelt_one():
    with pytest.raises(ValidationError, match=r"unknown field kye: did you mean key\?.*[\s\S]*Field required"):
        JobArgument.model_validate_json('{"kye": "k"}')


@pytest.mark.parametrize("data", [None, 7, "text", ["key"]])
def test_what_is_no_object_has_no_fields(data):
    assert unknown_fields(JobSpec, data) == []
