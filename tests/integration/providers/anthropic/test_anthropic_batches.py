"""A batch's life at Anthropic's side: real SDK, emulator process, real store."""

from datetime import UTC, datetime

import orjson
import pytest
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse
from anthropic_world import ENDPOINT, ask, body_of, state_of, stranger
from groupage.activities.collecting import Limits, collect_batch
from groupage.activities.providers.base import ResultFile, Submission, SyncCall
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.activity_calls import CancelBatch, CleanUpBatch, CollectBatch
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from groupage.schemas.ids import decode_wire_id
from groupage.store.shard_results import read_shard_results
from provider_world import attempt_of, attempts_of


async def ended(world, shard, batch_id):
    """The status with which the batch ends, as the workflow would see it."""
    status, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    return status


async def collected(world, shard, status, **limits):
    call = CollectBatch(shard=shard, status=status, submitted_at=datetime.now(UTC))
    return await collect_batch(world.store, world.adapter, call, Limits(spool=world.spool, pause_s=0.01, **limits))


async def run(world, emulator, shard):
    """Submit, let it end, collect; (status, report)."""
    done = await world.submit(shard)
    emulator.finish()
    status = await ended(world, shard, done.batch_id)
    return status, await collected(world, shard, status)


def lines_of(world, shard):
    """The shard's result lines by index, as stored."""
    results = read_shard_results(world.store, "tests", shard.job.key, 0, 0)
    assert results is not None
    return results


async def test_a_shard_becomes_one_batch_and_its_answers_come_home(anthropic_world, emulator):
    world = anthropic_world
    shard = world.shard(12)
    done = await world.submit(shard)
    assert done.batch_id.startswith("msgbatch_")
    assert done.input_files == []
    assert emulator.creates() == 1
    shown = MessageBatch.model_validate(ask(emulator, "GET", f"/messages/batches/{done.batch_id}"), strict=False)
    assert shown.request_counts.processing == 12
    assert shown.results_url is None

    emulator.finish()
    status = await ended(world, shard, done.batch_id)
    assert status.phase is BatchPhase.completed
    assert (status.total, status.completed, status.failed) == (12, 12, 0)
    path = world.folder / "results"
    await world.adapter.download(ResultFile("output", done.batch_id), path)
    rows = [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    for row in rows:
        MessageBatchIndividualResponse.model_validate(row)
    answers = [world.adapter.read_line(line, ENDPOINT) for line in path.read_bytes().split(b"\n")[:-1]]
    for answer in answers:
        index = decode_wire_id(answer.wire_id).index
        assert answer.text == expected_text(ENDPOINT, body_of(f"{shard.job.key} question {index}"))
    report = await collected(world, shard, status)
    assert report.outcomes == {Outcome.succeeded: 12}
    assert report.count_mismatch == ""
    assert report.cost_usd > 0
    assert not report.cost_estimated

    cleaned = await attempt_of(
        world.activities.clean_up_batch, CleanUpBatch(shard=shard, batch_id=done.batch_id, files=status.output_files)
    )
    assert cleaned.left_behind == []
    assert emulator.state()["files"] == []
    with pytest.raises(ProviderError) as gone:
        await world.adapter.status(done.batch_id)
    assert gone.value.error_class is ErrorClass.missing


async def test_submitting_again_returns_the_same_batch(anthropic_world, emulator):
    shard = anthropic_world.shard()
    first = await anthropic_world.submit(shard)
    second = await anthropic_world.again().submit(shard)
    assert (second.batch_id, second.adopted) == (first.batch_id, True)
    assert emulator.creates() == 1


async def test_a_shard_that_was_collected_is_not_waited_for_again_when_its_batch_is_deleted(anthropic_world, emulator):
    """A terminated job that is handed in again comes to shards that are over and done with."""
    world = anthropic_world
    shard = world.shard(4)
    status, report = await run(world, emulator, shard)
    found = await world.again().submit(shard)
    assert (found.batch_id, found.report) == (status.batch_id, None), "a batch that is there is looked at: it has files"
    await attempt_of(world.activities.clean_up_batch, CleanUpBatch(shard=shard, batch_id=status.batch_id))
    again = await world.again().submit(shard)
    assert (again.batch_id, again.adopted, again.report) == (status.batch_id, True, report)
    stopped = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=""))
    assert (stopped.batch_id, stopped.phase) == (status.batch_id, BatchPhase.completed)
    assert await collected(world, shard, stopped) == report
    assert emulator.creates() == 1


async def test_a_batch_is_not_deleted_before_it_has_ended(anthropic_world, emulator):
    done = await anthropic_world.submit(anthropic_world.shard())
    with pytest.raises(ProviderError):
        await anthropic_world.adapter.delete("batch", done.batch_id)
    assert state_of(emulator, done.batch_id) == "in_progress"


@pytest.mark.parametrize(
    ("kind", "outcome", "error_class"),
    [
        ({"kind": "truncated"}, Outcome.truncated, None),
        ({"kind": "refused"}, Outcome.refused, None),
        ({"kind": "expired"}, Outcome.expired, ErrorClass.expired),
        ({"kind": "http", "status": 400}, Outcome.failed, ErrorClass.invalid),
        ({"kind": "http", "status": 401}, Outcome.failed, ErrorClass.account),
        ({"kind": "http", "status": 402}, Outcome.failed, ErrorClass.account),
        ({"kind": "http", "status": 404}, Outcome.failed, ErrorClass.invalid),
        ({"kind": "http", "status": 413}, Outcome.failed, ErrorClass.too_large),
        ({"kind": "http", "status": 429}, Outcome.failed, ErrorClass.rate_limit),
        ({"kind": "http", "status": 500}, Outcome.failed, ErrorClass.transient),
        ({"kind": "http", "status": 504}, Outcome.failed, ErrorClass.transient),
        ({"kind": "http", "status": 529}, Outcome.failed, ErrorClass.transient),
        ({"kind": "status_zero"}, Outcome.failed, ErrorClass.unknown),
        ({"kind": "missing"}, Outcome.failed, ErrorClass.missing),
        ({"kind": "empty_body"}, Outcome.unreadable, ErrorClass.unreadable),
        ({"kind": "malformed"}, Outcome.unreadable, ErrorClass.unreadable),
        ({"kind": "invalid_utf8"}, Outcome.unreadable, ErrorClass.unreadable),
        ({"kind": "not_an_object"}, Outcome.unreadable, ErrorClass.unreadable),
    ],
    ids=lambda value: "-".join(str(part) for part in value.values()) if isinstance(value, dict) else None,
)
async def test_RP_14_RP_17_every_way_in_which_a_request_ends_has_its_outcome(
    anthropic_world, emulator, kind, outcome, error_class
):
    emulator.faults(requests=[{"lines": [3], **kind}])
    _, report = await run(anthropic_world, emulator, anthropic_world.shard(5))
    assert report.outcomes == {Outcome.succeeded: 4, outcome: 1}
    assert report.unanswered == ({error_class: 1} if error_class else {})


async def test_a_line_twice_and_a_line_of_nobody_change_no_answer(anthropic_world, emulator):
    emulator.faults(requests=[{"kind": "duplicate", "lines": [1]}, {"kind": "unknown_id", "lines": [2]}])
    _, report = await run(anthropic_world, emulator, anthropic_world.shard(4))
    assert report.outcomes == {Outcome.succeeded: 4}
    assert report.quarantined == 1
    assert "lines answer a request that has a line already" in report.count_mismatch


async def test_QU_06_an_account_without_credit_is_not_a_bad_prompt(anthropic_world, emulator):
    emulator.faults(requests=[{"kind": "credit", "lines": list(range(1, 61))}])
    _, report = await run(anthropic_world, emulator, anthropic_world.shard(100))
    assert report.outcomes == {Outcome.succeeded: 40, Outcome.failed: 60}
    assert report.unanswered == {ErrorClass.account: 60}
    assert report.top_errors == [("account/invalid_request_error", 60)]


async def test_PO_01_404s_on_the_way_and_results_that_come_late_are_waited_for(anthropic_world, emulator):
    world = anthropic_world
    emulator.faults(
        calls=[
            {"call": "batches.retrieve", "action": "error", "status": 404, "nth": [1, 2]},
            {"call": "files.content", "action": "error", "status": 404, "nth": [1]},
        ]
    )
    shard = world.shard()
    done = await world.submit(shard)
    emulator.finish()
    status = await ended(world, shard, done.batch_id)
    assert status.phase is BatchPhase.completed
    with pytest.raises(ProviderError) as early:
        await collected(world, shard, status)
    assert early.value.error_class is ErrorClass.transient
    report = await collected(world, shard, status)
    assert report.outcomes == {Outcome.succeeded: 10}


async def test_PO_05_an_unknown_state_is_no_end(anthropic_world, emulator):
    emulator.faults(batches=[{"effect": "status_word", "during": "in_progress", "word": "paused"}])
    done = await anthropic_world.submit(anthropic_world.shard())
    status = await anthropic_world.adapter.status(done.batch_id)
    assert status.phase is BatchPhase.unknown
    assert "paused" in status.warning


async def test_SDK_02_results_of_a_batch_that_runs_are_not_asked_for(anthropic_world, emulator):
    done = await anthropic_world.submit(anthropic_world.shard())
    with pytest.raises(ProviderError) as failure:
        await anthropic_world.adapter.download(ResultFile("output", done.batch_id), anthropic_world.folder / "x")
    assert (failure.value.error_class, failure.value.code) == (ErrorClass.transient, "not_ended")
    assert "files.content" not in emulator.state()["calls"]


@pytest.mark.parametrize(
    "cut", [{"action": "cut"}, {"action": "cut_clean", "line_end": False}, {"action": "cut_clean"}]
)
async def test_RP_04_RP_05_results_that_are_cut_are_fetched_again(anthropic_world, emulator, cut):
    world = anthropic_world
    shard = world.shard(20)
    done = await world.submit(shard)
    emulator.finish()
    emulator.faults(calls=[{"call": "files.content", "times": 1, **cut}])
    status = await ended(world, shard, done.batch_id)
    if cut["action"] == "cut":
        with pytest.raises(ProviderError) as failure:
            await collected(world, shard, status)
        assert failure.value.error_class is ErrorClass.transient
    report = await collected(world, shard, status)
    assert report.outcomes == {Outcome.succeeded: 20}


async def test_SDK_06_the_servers_wish_to_wait_is_kept(anthropic_world, emulator):
    world = anthropic_world
    emulator.faults(
        calls=[
            {"call": "batches.create", "action": "error", "status": 429, "retry_after": 5},
            {"call": "sync", "action": "error", "status": 429, "retry_after": 7},
        ]
    )
    path = world.folder / "in"
    path.write_bytes(world.adapter.render("a", ENDPOINT, b'{"x":1}'))
    with pytest.raises(ProviderError) as failure:
        await world.adapter.create(Submission("t", ENDPOINT, "m", path, 1, datetime.now(UTC)), [])
    assert failure.value.error_class is ErrorClass.rate_limit
    assert not isinstance(failure.value, AmbiguousCreate)
    assert failure.value.retry_after_s == 5
    answer = await world.adapter.complete(SyncCall("w", ENDPOINT, orjson.dumps(body_of("hi")), 5.0))
    assert (answer.error_class, answer.retry_after_s) == (ErrorClass.rate_limit, 7)


async def test_a_request_by_itself_is_answered_like_one_in_a_batch(anthropic_world, emulator):
    body = body_of("one by one")
    answer = await anthropic_world.adapter.complete(SyncCall("w-1", ENDPOINT, orjson.dumps(body), 5.0))
    assert answer.outcome is Outcome.succeeded
    assert answer.wire_id == "w-1"
    assert answer.text == expected_text(ENDPOINT, body)
    assert answer.request_id.startswith("req_")
    assert answer.usage.input_tokens > 0
    bad = await anthropic_world.adapter.complete(SyncCall("w-2", ENDPOINT, b'{"model":"m","messages":[]}', 5.0))
    assert (bad.outcome, bad.error_class) == (Outcome.failed, ErrorClass.invalid)
    emulator.faults(calls=[{"call": "sync", "action": "html"}])
    page = await anthropic_world.adapter.complete(SyncCall("w-3", ENDPOINT, orjson.dumps(body), 5.0))
    assert (page.error_class, page.code) == (ErrorClass.transient, "not_json")


async def test_a_portable_request_travels_in_anthropics_words(anthropic_world):
    request = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    line = anthropic_world.adapter.render("w", "/v1/chat/completions", orjson.dumps(request))
    params = orjson.loads(line[: -len(b",\n")])["params"]
    assert params["max_tokens"] == 9
    answer = await anthropic_world.adapter.complete(SyncCall("w", "/v1/chat/completions", orjson.dumps(request), 5.0))
    assert answer.text == expected_text(ENDPOINT, params)


async def test_pages_of_a_listing_are_followed_to_their_end(anthropic_world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.providers.anthropic.PAGE", 2)
    made = [stranger(emulator, 1, name=f"n{number}") for number in range(5)]
    seen = [batch.batch_id async for batch, _ in anthropic_world.adapter._batches(None)]
    assert seen == made[::-1]


async def test_a_page_may_be_walked_in_both_directions(emulator):
    made = [stranger(emulator, 1, name=f"n{number}") for number in range(5)][::-1]
    older = ask(emulator, "GET", f"/messages/batches?limit=2&after_id={made[1]}")
    newer = ask(emulator, "GET", f"/messages/batches?limit=2&before_id={made[3]}")
    assert [one["id"] for one in older["data"]] == made[2:4]
    assert [one["id"] for one in newer["data"]] == made[1:3]
    assert older["has_more"]
    assert newer["has_more"]


async def test_without_a_key_a_person_is_asked(anthropic_world, monkeypatch):
    from groupage.activities.providers.anthropic import AnthropicProvider
    from groupage.activities.settings import ProviderSettings

    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(anthropic_world.folder / "none"))
    adapter = AnthropicProvider("anthropic", ProviderSettings(base_url=anthropic_world.emulator.base_url))
    with pytest.raises(ProviderError) as failure:
        await adapter.status("msgbatch_1")
    assert failure.value.error_class is ErrorClass.account
