"""Each fault of the plan, seen through the official SDK."""

import asyncio
import time

import openai
import pytest
from emulator_world import CHAT, body, check_answers, input_file, lines, numbers, submit, wait
from groupage.emulator import expected_text


def calls(call, action, **more):
    return {"calls": [{"call": call, "action": action} | more]}


def requests(kind, **more):
    return {"requests": [{"kind": kind} | more]}


def effect(name, **more):
    return {"batches": [{"effect": name} | more]}


async def test_SU_02_a_create_whose_reply_is_lost_was_accepted(emulator, client):
    emulator.set_faults(calls("batches.create", "drop_after", nth=[1]))
    with pytest.raises(openai.APIConnectionError):
        await submit(client, input_file(2), metadata={"tag": "lost"})
    found = [batch async for batch in client.batches.list()]
    assert [batch.metadata for batch in found] == [{"tag": "lost"}]
    await submit(client, input_file(2), metadata={"tag": "lost"})
    assert len(emulator.ledger()["tags"]["lost"]) == 2


async def test_SU_04_creates_that_fail_after_acceptance_are_counted(emulator, client):
    emulator.set_faults(calls("batches.create", "error_after", status=500, times=2))
    file = await client.files.create(file=("in.jsonl", input_file(1)), purpose="batch")
    eager = client.with_options(max_retries=2)
    await eager.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"tag": "x"})
    assert emulator.status()["calls"]["batches.create"] == 3
    assert len(emulator.ledger()["tags"]["x"]) == 3


async def test_a_create_that_is_dropped_or_fails_before_acceptance_leaves_nothing(emulator, client):
    file = await client.files.create(file=("in.jsonl", input_file(1)), purpose="batch")
    good = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    emulator.set_faults(
        {
            "calls": [
                {"call": "batches.create", "action": "drop_before", "nth": [1]},
                {"call": "batches.create", "action": "error", "status": 503, "nth": [2]},
                {"call": "batches.create", "action": "error", "status": 429, "retry_after": 5, "nth": [3]},
            ]
        }
    )
    with pytest.raises(openai.APIConnectionError):
        await client.batches.create(**good)
    with pytest.raises(openai.InternalServerError):
        await client.batches.create(**good)
    with pytest.raises(openai.RateLimitError) as limit:
        await client.batches.create(**good)
    assert limit.value.response.headers["retry-after"] == "5"
    assert [batch async for batch in client.batches.list()] == []
    assert (await wait(client, (await client.batches.create(**good)).id)).status == "completed"


async def test_PO_01_a_new_batch_may_be_invisible_for_a_while(emulator, client):
    emulator.set_faults(calls("batches.create", "lag", seconds="1h", nth=[1]))
    batch = await submit(client, input_file(2))
    with pytest.raises(openai.NotFoundError):
        await client.batches.retrieve(batch.id)
    assert [one async for one in client.batches.list()] == []
    emulator.advance("1h")
    assert (await wait(client, batch.id)).status == "completed"


async def test_PO_22_a_gateways_page_with_200(emulator, client):
    batch = await submit(client, input_file(1))
    emulator.set_faults(calls("batches.retrieve", "html", times=1))
    reply = await client.batches.with_raw_response.retrieve(batch.id)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html")
    assert b"<html>" in reply.content
    assert (await wait(client, batch.id)).status == "completed"


async def test_PO_02_good_and_bad_polls_alternate(emulator, client):
    batch = await submit(client, input_file(1))
    emulator.set_faults(calls("batches.retrieve", "error", status=502, every=2))
    await client.batches.retrieve(batch.id)
    with pytest.raises(openai.InternalServerError):
        await client.batches.retrieve(batch.id)
    await client.batches.retrieve(batch.id)


async def finished(client, count=10, **more):
    return await wait(client, (await submit(client, input_file(count), **more)).id)


async def test_RP_04_a_body_cut_in_mid_line(emulator, client):
    batch = await finished(client)
    emulator.set_faults(calls("files.content", "cut", at=0.6, nth=[1]))
    with pytest.raises(openai.APIConnectionError):
        await client.files.content(batch.output_file_id)
    check_answers(await lines(client, batch.output_file_id))


async def test_RP_05_a_body_cut_at_a_lines_end_looks_whole(emulator, client):
    batch = await finished(client)
    emulator.set_faults(calls("files.content", "cut_clean", at=0.75, nth=[1]))
    short = await client.files.content(batch.output_file_id)
    assert "content-length" not in short.response.headers
    assert short.content.endswith(b"\n")
    assert short.content.count(b"\n") == 7
    assert len(await lines(client, batch.output_file_id)) == 10


async def test_a_clean_cut_may_also_be_in_mid_line(emulator, client):
    batch = await finished(client)
    emulator.set_faults(calls("files.content", "cut_clean", at=0.55, line_end=False))
    assert not (await client.files.content(batch.output_file_id)).content.endswith(b"\n")


async def test_RP_20_a_wrong_charset_is_declared(emulator, client):
    emulator.set_faults(calls("files.content", "content_type"))
    batch = await finished(client)
    reply = await client.files.content(batch.output_file_id)
    assert reply.response.headers["content-type"] == "text/plain; charset=ISO-8859-1"


async def test_a_body_that_trickles_is_whole_in_the_end(emulator, client):
    batch = await finished(client)
    emulator.set_faults(calls("files.content", "trickle", seconds="1s", nth=[1]))
    began = time.monotonic()
    async with client.files.with_streaming_response.content(batch.output_file_id) as reply:
        pieces = [(time.monotonic() - began, piece) async for piece in reply.iter_bytes()]
    assert len(pieces) > 1
    assert pieces[-1][0] >= 1.0
    assert b"".join(piece for _, piece in pieces) == (await client.files.content(batch.output_file_id)).content


async def test_a_late_create_happens_although_the_caller_has_gone(emulator, client):
    file = await client.files.create(file=("in.jsonl", input_file(3)), purpose="batch")
    emulator.set_faults(calls("batches.create", "late", seconds="1h"))
    call = asyncio.create_task(
        client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    )
    while "batches.create" not in emulator.status()["calls"]:  # noqa: ASYNC110  # the emulator tells nobody
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)  # for its body, which follows at once
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert emulator.status()["batches"] == []
    emulator.advance("1h")
    for _ in range(3000):
        if emulator.status()["batches"]:
            break
        await asyncio.sleep(0.02)
    assert len(emulator.status()["batches"]) == 1


async def test_SDK_07_a_slow_reply(emulator, client):
    emulator.set_faults(calls("batches.list", "slow", seconds="400ms"))
    began = time.monotonic()
    await client.batches.list()
    assert time.monotonic() - began >= 0.4
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.1).batches.list()


async def test_CL_04_some_deletes_fail(emulator, client):
    files = [await client.files.create(file=("f", b"x"), purpose="batch") for _ in range(3)]
    emulator.set_faults(calls("files.delete", "error", status=500, nth=[2]))
    await client.files.delete(files[0].id)
    with pytest.raises(openai.InternalServerError):
        await client.files.delete(files[1].id)
    await client.files.delete(files[2].id)
    assert [file["id"] for file in emulator.status()["files"]] == [files[1].id]


async def test_a_lost_sync_reply_is_billed_and_marked(emulator, client):
    emulator.set_faults(calls("sync", "drop_after", nth=[1]))
    with pytest.raises(openai.APIConnectionError):
        await client.chat.completions.create(**body(1))
    await client.chat.completions.create(**body(1))
    summary = emulator.ledger()
    assert summary["questions_paid_more_than_once"] == 1
    assert summary["questions_answered_more_than_once"] == 0
    assert [row["ending"] for row in emulator.questions()] == ["lost", "answered"]


async def test_a_share_of_questions_fails_once_and_works_by_any_route_afterwards(emulator, client):
    emulator.set_faults(requests("http", status=429, share=0.3, times=1))
    batch = await finished(client, 100)
    failed = numbers(await lines(client, batch.error_file_id))
    assert 15 < len(failed) < 45
    assert batch.request_counts.failed == len(failed)
    reply = await client.chat.completions.create(**body(failed[0]))
    assert reply.choices[0].message.content == expected_text(CHAT, body(failed[0]))
    again = await finished(client, 100)
    assert again.error_file_id is None
    assert emulator.ledger()["batch"]["billed"] == 200 - len(failed)


async def test_a_question_that_failed_by_sync_works_in_a_batch(emulator, client):
    emulator.set_faults(requests("http", status=503, retry_after=2, match="Question 3", times=1))
    with pytest.raises(openai.InternalServerError) as refusal:
        await client.chat.completions.create(**body(3))
    assert refusal.value.response.headers["retry-after"] == "2"
    assert (await finished(client)).error_file_id is None


async def test_QU_06_an_account_without_credit(emulator, client):
    emulator.set_faults(requests("credit", share=1))
    with pytest.raises(openai.RateLimitError) as refusal:
        await client.chat.completions.create(**body(1))
    assert refusal.value.code == "insufficient_quota"
    batch = await finished(client)
    codes = {line["response"]["body"]["error"]["code"] for line in await lines(client, batch.error_file_id)}
    assert codes == {"insufficient_quota"}
    assert emulator.ledger()["questions_paid"] == 0


async def test_RP_14_truncated_and_refused_by_sync(emulator, client):
    emulator.set_faults({"requests": [{"kind": "truncated", "match": "one"}, {"kind": "refused", "match": "two"}]})
    ask = {"model": "m", "max_tokens": 50}
    cut = await client.chat.completions.create(**ask, messages=[{"role": "user", "content": "one"}])
    assert cut.choices[0].finish_reason == "length"
    no = await client.chat.completions.create(**ask, messages=[{"role": "user", "content": "two"}])
    assert (no.choices[0].finish_reason, no.choices[0].message.content) == ("content_filter", None)
    short = await client.responses.create(model="m", input="one")
    assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")


async def test_RP_11_counts_say_completed_where_lines_have_status_zero(emulator, client):
    emulator.set_faults(requests("status_zero", every=10))
    batch = await finished(client, 100)
    assert (batch.request_counts.completed, batch.request_counts.failed) == (100, 0)
    assert len(await lines(client, batch.output_file_id)) == 90
    assert {line["response"]["status_code"] for line in await lines(client, batch.error_file_id)} == {0}


async def test_PF_08_a_line_that_is_in_neither_file(emulator, client):
    emulator.set_faults(requests("missing", lines=[4], times=1))
    batch = await finished(client)
    assert numbers(await lines(client, batch.output_file_id)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert batch.error_file_id is None


async def test_PF_09_a_batch_that_expires_at_60_of_100(emulator, client):
    emulator.set_faults(effect("expire", at=0.6, nth=[1]))
    batch = await finished(client, 100)
    assert batch.status == "expired"
    assert (batch.request_counts.completed, batch.expired_at is not None) == (60, True)
    done, left = await lines(client, batch.output_file_id), await lines(client, batch.error_file_id)
    assert numbers(done + left) == list(range(100))
    assert {line["error"]["code"] for line in left} == {"batch_expired"}
    assert (await finished(client)).status == "completed"


async def test_QU_01_token_limit_exceeded_a_number_of_times(emulator, client):
    emulator.set_faults(effect("token_limit", times=2, tag="gabc"))
    assert (await finished(client, metadata={"tag": "other"})).status == "completed"
    for _ in range(2):
        batch = await finished(client, metadata={"tag": "gabc-r0-s0"})
        assert (batch.status, batch.errors.data[0].code) == ("failed", "token_limit_exceeded")
    assert (await finished(client, metadata={"tag": "gabc-r0-s0"})).status == "completed"


async def test_PO_19_a_stalled_batch_whose_cancel_never_ends(emulator, client):
    emulator.set_faults({"batches": [{"effect": "stall", "at": 0.4}, {"effect": "slow_cancel"}]})
    batch = await wait(client, (await submit(client, input_file(100))).id, "in_progress")
    emulator.advance("5h")
    batch = await client.batches.retrieve(batch.id)
    assert (batch.status, batch.request_counts.completed) == ("in_progress", 40)
    await client.batches.cancel(batch.id)
    emulator.advance("5h")
    assert (await client.batches.retrieve(batch.id)).status == "cancelling"


async def test_PO_08_completed_without_a_file_for_a_while(emulator, client):
    emulator.set_faults(effect("late_output", seconds="1h"))
    batch = await finished(client)
    assert (batch.status, batch.output_file_id, batch.request_counts.completed) == ("completed", None, 10)
    emulator.advance("1h")
    assert (await client.batches.retrieve(batch.id)).output_file_id is not None


async def test_PO_05_status_words_nobody_knows(emulator, client):
    emulator.set_faults(
        {
            "batches": [
                {"effect": "status_word", "during": "completed", "word": "COMPLETED", "nth": [1]},
                {"effect": "status_word", "during": "completed", "word": None, "nth": [2]},
                {"effect": "status_word", "during": "completed", "word": "paused", "nth": [3]},
            ]
        }
    )
    ids = [(await submit(client, input_file(1))).id for _ in range(3)]
    for _ in range(3000):
        words = [(await client.batches.retrieve(batch_id)).status for batch_id in ids]
        if words == ["COMPLETED", None, "paused"]:
            break
        await asyncio.sleep(0.05)
    assert words == ["COMPLETED", None, "paused"]


@pytest.mark.parametrize("kind", ["null", "zero", "optimistic"])
async def test_PO_10_and_PF_07_counts_that_cannot_be_trusted(emulator, client, kind):
    emulator.set_faults(requests("http", status=500, lines=[1, 2]) | effect("counts", counts=kind))
    counts = (await finished(client)).request_counts
    if kind == "null":
        assert counts is None
    else:
        assert (counts.total, counts.completed, counts.failed) == ((0, 0, 0) if kind == "zero" else (10, 10, 0))


async def test_PF_01_completed_with_only_an_error_file(emulator, client):
    emulator.set_faults(effect("only_errors"))
    batch = await finished(client, 9)
    assert (batch.status, batch.output_file_id) == ("completed", None)
    assert (batch.request_counts.completed, batch.request_counts.failed) == (0, 9)
    assert numbers(await lines(client, batch.error_file_id)) == list(range(9))


async def test_a_batch_may_take_its_own_time(emulator, client):
    emulator.set_faults(effect("turnaround", seconds="1h", nth=[1]))
    slow = await submit(client, input_file(1))
    assert (await finished(client)).status == "completed"
    assert (await client.batches.retrieve(slow.id)).status in ("validating", "in_progress")


async def test_the_plan_can_be_read_back(emulator):
    plan = requests("http", share=0.5) | calls("sync", "slow", seconds="2s") | effect("stall")
    emulator.set_faults(plan)
    read = emulator.faults()
    assert read["requests"] == plan["requests"]
    assert read["calls"][0]["action"] == "slow"
    assert read["batches"] == plan["batches"]
