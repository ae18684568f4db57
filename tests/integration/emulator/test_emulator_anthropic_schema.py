"""What the emulator says at Anthropic's side is what the SDK's models say, to the field."""

import time
from typing import Any

import pytest
from anthropic.types import ErrorResponse, Message
from anthropic.types.messages import DeletedMessageBatch, MessageBatch, MessageBatchIndividualResponse
from strict import Strict, ask, held_to

HEADERS = {"x-api-key": "test", "anthropic-version": "2026-10-21"}


class BatchPage(Strict):
    """A page of GET /v1/messages/batches."""

    data: list[MessageBatch]
    first_id: str | None
    last_id: str | None
    has_more: bool


def params(n: int) -> dict[str, Any]:
    return {"model": "claude-x", "max_tokens": 50, "messages": [{"role": "user", "content": f"Question {n} ?"}]}


def requests(count: int, first: int = 0) -> dict[str, Any]:
    return {"requests": [{"custom_id": f"r-{n}", "params": params(n)} for n in range(first, first + count)]}


def call(process, path: str = "", method: str = "GET", given: Any = None, **headers: str) -> tuple[int, bytes]:
    return ask(f"{process.base_url}/messages{path}", method, given, {"Authorization": "", **HEADERS, **headers})


def batch_of(process, batch_id: str, method: str = "GET", action: str = "") -> dict[str, Any]:
    return held_to(MessageBatch, call(process, f"/batches/{batch_id}{action}", method)[1])


def ended(process, batch_id: str, seen: set[str]) -> dict[str, Any]:
    for turn in range(400):
        batch = batch_of(process, batch_id)
        seen.add(batch["processing_status"])
        if batch["processing_status"] == "ended":
            return batch
        if turn > 20:
            process.advance(30)
        time.sleep(0.02)
    raise AssertionError(f"no end of {batch}")


def results_of(process, batch: dict[str, Any]) -> list[dict[str, Any]]:
    status, raw = ask(batch["results_url"], headers={"Authorization": "", **HEADERS})
    assert status == 200, raw
    return [held_to(MessageBatchIndividualResponse, line) for line in raw.split(b"\n")[:-1]]


def kinds(lines: list[dict[str, Any]]) -> set[str]:
    return {line["result"]["type"] for line in lines}


@pytest.fixture
def slow(start):
    return start(turnaround="10m", cancel_takes="2m")


def test_a_batch_and_its_results_fit_the_sdks_models_in_every_state(slow):
    seen: set[str] = set()
    slow.set_faults(
        {
            "requests": [
                {"kind": "http", "status": 400, "match": "Question 3 ?"},
                {"kind": "http", "status": 500, "match": "Question 4 ?"},
                {"kind": "http", "status": 529, "match": "Question 5 ?"},
                {"kind": "credit", "match": "Question 6 ?"},
                {"kind": "truncated", "match": "Question 7 ?"},
                {"kind": "refused", "match": "Question 8 ?"},
            ],
            "batches": [{"effect": "expire", "at": 0.5, "nth": [2]}, {"effect": "stall", "at": 0.5, "nth": [3]}],
        }
    )
    ids = []
    for number in range(3):
        status, raw = call(slow, "/batches", "POST", requests(12, 100 * number))
        assert status == 200, raw
        ids.append(held_to(MessageBatch, raw)["id"])
    stuck = ids[2]
    for _ in range(3000):
        batch_of(slow, stuck)
        if all(batch["counts"]["total"] for batch in slow.status()["batches"]):
            break  # their inputs were read
        time.sleep(0.01)
    slow.advance(400)
    seen.add(batch_of(slow, stuck, "POST", "/cancel")["processing_status"])
    whole, late, stopped = (ended(slow, each, seen) for each in ids)
    assert seen == {"in_progress", "canceling", "ended"}
    lines = results_of(slow, whole)
    assert len(lines) == 12
    assert kinds(lines) == {"succeeded", "errored"}
    assert {line["result"]["message"]["stop_reason"] for line in lines if "message" in line["result"]} == {
        "end_turn", "max_tokens", "refusal",
    }  # fmt: skip
    assert kinds(results_of(slow, late)) == {"succeeded", "expired"}
    assert kinds(results_of(slow, stopped)) == {"succeeded", "canceled"}
    page = held_to(BatchPage, call(slow, "/batches?limit=2")[1])
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([ids[2], ids[1]], True)
    held_to(DeletedMessageBatch, call(slow, f"/batches/{ids[0]}", "DELETE")[1])


def test_a_sync_answer_fits_the_sdks_model(emulator):
    status, raw = call(emulator, "", "POST", params(1))
    assert status == 200, raw
    held_to(Message, raw)


def test_every_refusal_is_an_error_of_the_sdks_model(emulator):
    held_to(MessageBatch, call(emulator, "/batches", "POST", requests(1))[1])
    refused = [
        (401, call(emulator, "/batches", **{"x-api-key": ""})),
        (404, call(emulator, "/batches/msgbatch_none")),
        (400, call(emulator, "/batches", "POST", {"requests": []})),
        (400, call(emulator, "/batches", "POST", {"requests": [{"custom_id": "a b", "params": params(1)}]})),
        (400, call(emulator, "/batches", "POST", {"requests": requests(1)["requests"] * 2})),
        (400, call(emulator, "/batches", "POST", b"{")),
        (400, call(emulator, "", "POST", {"model": "claude-x"})),
    ]
    for status in (429, 500, 529):
        emulator.set_faults({"calls": [{"call": "batches.list", "action": "error", "status": status}]})
        refused.append((status, call(emulator, "/batches")))
    for wanted, (status, raw) in refused:
        assert status == wanted, raw
        assert held_to(ErrorResponse, raw)["error"]["message"]
