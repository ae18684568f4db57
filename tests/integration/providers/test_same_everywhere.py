"""`groupage run --provider NAME`: the same thousand portable requests and the same faults end the same way everywhere."""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from cli_world import Commands, read_results  # found through the lines above
from groupage.client.local_server import ServerFiles, is_running
from groupage.schemas import Outcome, Result
from groupage.workers.embedded import stop_if_unused

from tests.side_by_side.providers import CHAT, PROVIDERS, Provider, running
from tests.side_by_side.thousand import PLAN, POLICY, SCHEMA, SHARD, TOOL, Asked, outcomes, thousand

TELLS = Path(__file__).parents[2] / "side_by_side" / "run_and_tell.py"
NEVER = {"azure.identity", "google.cloud.aiplatform", "vertexai", "starlette", "uvicorn"}
"""Nobody is to load these here: keys are given, Vertex is spoken to by its job client alone, and the rest is the emulator's."""
TABLE = Path(__file__).parents[3] / "docs" / "portable-requests.md"
USUAL = set(Result.model_fields) - {"labels", "tool_calls", "provider_ids"}
"""Keys of every result line; the others are there where they say something."""
ANSWERS = {Outcome.succeeded, Outcome.truncated, Outcome.refused}


@dataclass(frozen=True, slots=True)
class Ran:
    """What one provider's run left. `modules` are those that the command's process had loaded at its end."""

    label: str
    provider: Provider
    asked: list[Asked]
    results: list[dict[str, Any]]
    code: int
    said: str
    complained: str
    modules: frozenset[str]
    tags: Counter[str]
    ledger: dict[str, Any]
    state: dict[str, Any]
    leftovers: list[dict[str, Any]]


@pytest.fixture(scope="module", params=PROVIDERS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    label, folder = request.param, tmp_path_factory.mktemp(request.param)
    provider = PROVIDERS[label]
    asked = thousand(provider.model)
    source, output, modules = (folder / name for name in ("in.jsonl", "out.jsonl", "modules"))
    source.write_bytes(b"".join(one.line + b"\n" for one in asked))
    policy = [option for name, value in POLICY.items() for option in ("--policy", f"{name}={value}")]
    with running(provider, folder, turnaround="1s", faults=PLAN) as there:
        commands = Commands(folder, there.emulator)
        commands.environment |= there.variables | provider.waits
        options = ["--provider", provider.name, "--deadline", "20m", "--json", *policy]
        try:
            done = commands.call(
                "run", source, "-o", output, *options, timeout_s=250, module=(str(TELLS), str(modules))
            )
            assert output.exists(), done.stderr
            found = Ran(
                label, provider, asked, read_results(output), done.returncode, done.stdout, done.stderr,
                frozenset(modules.read_text().split()), commands.batches_by_tag(), there.emulator.ledger(),
                there.emulator.status(), there.leftovers(),
            )  # fmt: skip
        finally:
            commands.stop_all()
            stop_if_unused(commands.state_dir)
    assert not is_running(ServerFiles.of(commands.state_dir))
    return found


def test_a_thousand_portable_requests_end_the_same_way_at_every_provider(ran: Ran) -> None:
    pairs = zip(ran.asked, ran.results, strict=True)
    assert [problem for one, result in pairs for problem in problems(ran.provider, one, result)] == []
    assert ran.code == 3, ran.complained
    assert json.loads(ran.said)["outcomes"] == dict(outcomes(ran.asked))
    assert documented(ran.label) == outcomes(ran.asked), "docs/portable-requests.md tells what was seen"


def test_every_provider_got_one_batch_a_submission_answered_nothing_twice_and_is_left_empty(ran: Ran) -> None:
    assert set(ran.tags.values()) == {1}
    assert ran.ledger["questions_answered_more_than_once"] == 0
    assert (ran.state["batches_live"], ran.leftovers) == (0, [])
    effects = [effect for batch in ran.state["batches"] for effect in batch["effects"]]
    assert effects == ["expire"], "the plan has struck"
    assert max(batch["counts"]["total"] for batch in ran.state["batches"]) == SHARD


def test_a_process_loads_the_sdk_of_the_provider_that_it_talks_to_and_no_other(ran: Ran) -> None:
    assert set(ran.provider.sdk) <= ran.modules
    others = {name for one in PROVIDERS.values() for name in one.sdk} | NEVER
    others -= set(ran.provider.sdk)
    assert {name for name in ran.modules if name in others or name.startswith("groupage.emulator")} == set()


def problems(provider: Provider, asked: Asked, result: dict[str, Any]) -> list[str]:
    """What is wrong with one result; the same rules for every provider."""
    ending, error = asked.ending, result["error"]
    said = {name for name in ("labels", "tool_calls", "provider_ids") if result.get(name)}
    found = {
        "keys": (set(result), USUAL | said),
        "id": (result["id"], asked.id),
        "outcome": (result["outcome"], ending.outcome),
        "error": (error and error["class"], ending.error),
        "labels": (result.get("labels", {}), asked.labels),
        "provider": (result["provider"], provider.name),
    }
    if ending.route:
        found["route"] = (result["route"], ending.route)
    if asked.body is not None and ending.outcome in ANSWERS:
        found |= _of_an_answer(provider, asked, result)
    elif error is not None:
        found["words"] = (bool(error["message"]), True)
    return [
        f"{asked.id!r} ({asked.form}, {asked.fault}): {what} {a!r}, not {b!r}"
        for what, (a, b) in found.items()
        if a != b
    ]


def _of_an_answer(provider: Provider, asked: Asked, result: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    assert asked.body is not None
    text, usage, batch = result["text"], result["usage"], result["route"] == "batch"
    found: dict[str, tuple[Any, Any]] = {"model": (bool(result["model"]), True)}
    found["body"] = (isinstance(result["body"], dict), True)
    if asked.ending.outcome is Outcome.refused:
        # Azure's filter refuses with an error and bills nothing; elsewhere a refusal is an answer that is paid for.
        found["paid"] = (usage is None, result["cost_usd"] is None)
        return found | {"tools": (result.get("tool_calls"), None)}
    found["usage"] = (usage is not None and usage["input_tokens"] > 0 and usage["output_tokens"] > 0, True)
    found["half the price"] = (Decimal(result["cost_usd"] or 0) < Decimal(result["sync_cost_usd"] or 0), batch)
    if asked.form == "tool":
        made = result.get("tool_calls") or ()
        calls = [(call["type"], call["function"]["name"]) for call in made]
        said = [set(json.loads(call["function"]["arguments"])) for call in made]
        return found | {"tools": (calls, [("function", TOOL["name"])]), "arguments": (said, [{"word"}])}
    found["tools"] = (result.get("tool_calls"), None)
    if asked.form == "schema":
        value = json.loads(text)
        return found | {"form": (set(value), set(SCHEMA["required"])), "kind": (type(value["sure"]), bool)}
    whole = provider.text(CHAT, asked.body)
    found["text"] = (text, whole[: len(whole) // 2] if asked.ending.outcome is Outcome.truncated else whole)
    return found


def documented(label: str) -> Counter[str]:
    """The provider's row in the table of docs/portable-requests.md."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TABLE.read_text().split("\n")]
    head = next(at for at, row in enumerate(rows) if row[:1] == ["side by side"])
    counts = {row[0]: row[1:] for row in rows[head:] if row}.get(f"`{label}`", [])
    return Counter({title: int(count) for title, count in zip(rows[head][1:], counts, strict=False)})
