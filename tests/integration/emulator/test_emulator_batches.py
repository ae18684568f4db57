"""The life of a batch, seen through the official SDK."""

import asyncio
import time

import openai
import pytest
from emulator_world import CHAT, body, check_answers, checked, input_file, lines, numbers, submit, wait
from groupage.emulator import EmulatorFailed, expected_text, question_of
from openai import AsyncOpenAI


async def test_a_batch_is_uploaded_created_answered_downloaded_and_cleaned_up(emulator, client):
    file = await client.files.create(
        file=("in.jsonl", input_file(20)), purpose="batch", expires_after={"anchor": "created_at", "seconds": 7200}
    )
    assert (file.status, file.purpose, file.bytes) == ("processed", "batch", len(input_file(20)))
    assert file.expires_at == file.created_at + 7200
    batch = await client.batches.create(
        input_file_id=file.id,
        endpoint=CHAT,
        completion_window="24h",
        metadata={"groupage": "gabc-r0-s0"},
        output_expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (batch.status, batch.metadata, batch.object) == ("validating", {"groupage": "gabc-r0-s0"}, "batch")
    batch = await wait(client, batch.id)
    assert batch.status == "completed"
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (20, 20, 0)
    assert batch.model == "gpt-4o-mini"
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
    assert (batch.error_file_id, batch.errors, batch.failed_at) == (None, None, None)
    found = await lines(client, batch.output_file_id)
    check_answers(found)
    assert numbers(found) == list(range(20))
    usage = [line["response"]["body"]["usage"] for line in found]
    assert batch.usage.input_tokens == sum(one["prompt_tokens"] for one in usage)
    assert batch.usage.output_tokens == sum(one["completion_tokens"] for one in usage)
    output = await client.files.retrieve(batch.output_file_id)
    assert output.purpose == "batch_output"
    assert output.expires_at - output.created_at in (3600, 3601)
    for file_id in (file.id, batch.output_file_id):
        assert (await client.files.delete(file_id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.files.content(file.id)
    assert emulator.status()["files"] == []


async def test_states_and_counts_move_with_the_clock(start):
    emulator = start(turnaround="1h")
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        batch = await submit(client, input_file(100))
        await checked(client, batch.id)
        seen = []
        for step in ("30s", "20m", "20m", "17m", "1m", "5m"):
            emulator.advance(step)
            looked = await client.batches.retrieve(batch.id)
            seen.append((looked.status, looked.request_counts.completed))
        assert [status for status, _ in seen[:5]] == ["validating", *["in_progress"] * 2, *["finalizing"] * 2]
        counts = [count for _, count in seen]
        assert 30 <= counts[1] <= 36
        assert 66 <= counts[2] <= 72
        done = await wait(client, batch.id, "completed")
        assert 3600 <= done.completed_at - done.created_at <= 3600 + 360


async def test_lists_are_newest_first_and_paged(client):
    ids = [(await submit(client, input_file(1))).id for _ in range(5)]
    assert [batch.id async for batch in client.batches.list(limit=2)] == ids[::-1]
    page = await client.batches.list(limit=2, after=ids[3])
    assert [batch.id for batch in page.data] == [ids[2], ids[1]]
    assert page.has_more
    with pytest.raises(openai.BadRequestError):
        await client.batches.list(after="batch_unknown")
    with pytest.raises(openai.BadRequestError):
        await client.batches.list(limit=101)
    files = [file.id async for file in client.files.list(purpose="batch", order="asc", limit=2)]
    assert len(files) == 5
    assert files == [file.id async for file in client.files.list(purpose="batch")][::-1]


async def test_accounts_do_not_see_each_other(emulator, client):
    batch = await submit(client, input_file(1))
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="other", max_retries=0) as other:
        with pytest.raises(openai.NotFoundError):
            await other.batches.retrieve(batch.id)
        with pytest.raises(openai.NotFoundError):
            await other.files.content(batch.input_file_id)
        assert [one async for one in other.batches.list()] == []


async def test_what_the_api_refuses_at_once(client):
    file = await client.files.create(file=("in.jsonl", input_file(1)), purpose="batch")
    good = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    for wrong in (
        {"endpoint": "/v1/nowhere"},
        {"completion_window": "48h"},
        {"metadata": {f"k{n}": "v" for n in range(17)}},
        {"metadata": {"k" * 65: "v"}},
        {"metadata": {"k": "v" * 513}},
        {"output_expires_after": {"anchor": "created_at", "seconds": 60}},
    ):
        with pytest.raises(openai.BadRequestError):
            await client.batches.create(**good | wrong)
    with pytest.raises(openai.NotFoundError):
        await client.batches.create(**good | {"input_file_id": "file-none"})
    with pytest.raises(openai.BadRequestError):
        await client.files.create(file=("x", b"x"), purpose="poetry")
    other = await client.files.create(file=("x", b"x"), purpose="user_data")
    with pytest.raises(openai.BadRequestError):
        await client.batches.create(**good | {"input_file_id": other.id})


async def test_a_bad_input_file_fails_the_batch_with_the_line(client):
    batch = await submit(client, input_file(2) + input_file(1))
    batch = await wait(client, batch.id)
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("failed", None, None)
    assert [(error.code, error.line) for error in batch.errors.data] == [("duplicate_custom_id", 3)]
    assert batch.failed_at is not None


async def test_PO_16_cancel_is_asynchronous_keeps_what_is_done_and_is_refused_at_the_end(start):
    emulator = start(turnaround="1h", cancel_takes="10m")
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        batch = await submit(client, input_file(100))
        await checked(client, batch.id)
        emulator.advance("30m")
        cancelling = await client.batches.cancel(batch.id)
        assert cancelling.status == "cancelling"
        assert cancelling.cancelling_at is not None
        assert (await client.batches.cancel(batch.id)).status == "cancelling"
        emulator.advance("10m")
        batch = await wait(client, batch.id)
        assert batch.status == "cancelled"
        done, left = await lines(client, batch.output_file_id), await lines(client, batch.error_file_id)
        check_answers(done)
        assert numbers(done + left) == list(range(100))
        assert {line["error"]["code"] for line in left} == {"batch_cancelled"}
        assert 45 < len(done) < 60
        assert batch.request_counts.completed == len(done)
        assert emulator.ledger()["batch"]["billed"] == len(done)
        with pytest.raises(openai.ConflictError):
            await client.batches.cancel(batch.id)


async def test_QU_02_the_token_limit_counts_all_live_batches_of_the_account(start):
    emulator = start(turnaround="1h", max_enqueued_tokens=500)
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        # 30 requests have some 330 prompt tokens.
        first = await submit(client, input_file(30))
        second = await submit(client, input_file(30, first=30))
        await checked(client, first.id)
        emulator.advance("7m")
        failed = await wait(client, second.id, "failed")
        assert failed.errors.data[0].code == "token_limit_exceeded"
        assert failed.errors.data[0].line is None
        emulator.advance("2h")
        await wait(client, first.id, "completed")
        third = await submit(client, input_file(30, first=30))
        await checked(client, third.id)
        emulator.advance("2h")
        assert (await wait(client, third.id)).status == "completed"


async def test_CL_01_the_number_and_size_of_files_are_limited(start):
    emulator = start(max_files=2, max_file_bytes=1000, turnaround="0s")
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        with pytest.raises(openai.APIStatusError) as refusal:
            await client.files.create(file=("big", b"x" * 1001), purpose="batch")
        assert refusal.value.status_code == 413
        files = [await client.files.create(file=("f", b"x"), purpose="batch") for _ in range(2)]
        with pytest.raises(openai.BadRequestError) as full:
            await client.files.create(file=("f", b"x"), purpose="batch")
        assert full.value.code == "quotaExceeded"
        await client.files.delete(files[0].id)
        await client.files.create(file=("f", b"x"), purpose="batch")


async def test_large_files_come_in_parts(client):
    data = input_file(40)
    file = await client.uploads.upload_file_chunked(
        file=data, filename="in.jsonl", bytes=len(data), mime_type="application/jsonl", purpose="batch", part_size=1000
    )
    assert file.status == "completed"
    assert (await client.files.content(file.file.id)).content == data
    batch = await client.batches.create(input_file_id=file.file.id, endpoint=CHAT, completion_window="24h")
    assert (await wait(client, batch.id)).request_counts.completed == 40


async def test_the_input_may_be_deleted_while_the_batch_runs_and_ranges_are_served(start):
    emulator = start(turnaround="1h")
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        batch = await submit(client, input_file(10))
        await client.files.delete(batch.input_file_id)
        emulator.advance("2h")
        batch = await wait(client, batch.id)
        whole = (await client.files.content(batch.output_file_id)).content
        part = await client.files.content(batch.output_file_id, extra_headers={"Range": "bytes=100-"})
        assert part.content == whole[100:]
        assert part.response.status_code == 206


async def test_files_vanish_when_they_expire(emulator, client):
    file = await client.files.create(
        file=("f", b"x"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    emulator.advance("59m")
    assert (await client.files.retrieve(file.id)).id == file.id
    emulator.advance("1m")
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(file.id)
    assert [one async for one in client.files.list()] == []


async def test_sync_answers_are_the_batch_answers_and_both_are_in_the_ledger(emulator, client):
    batch = await submit(client, input_file(3), metadata={"tag": "once"})
    await wait(client, batch.id)
    reply = await client.chat.completions.create(**body(1))
    assert reply.choices[0].message.content == expected_text(CHAT, body(1))
    summary = emulator.ledger()
    assert summary["questions_answered"] == 3
    assert summary["questions_answered_more_than_once"] == 1
    assert summary["tags"] == {"once": [batch.id]}
    rows = list(emulator.questions(min_paid=2))
    assert [(row["route"], row["custom_id"]) for row in rows] == [("batch", "r-1"), ("sync", None)]
    assert rows[0]["question"] == question_of(CHAT, body(1))
    assert rows[1]["cost_usd"] == pytest.approx(2 * rows[0]["cost_usd"])
    assert len(list(emulator.questions(question=question_of(CHAT, body(2))))) == 1
    total = sum(row["cost_usd"] for row in emulator.questions())
    assert total == pytest.approx(summary["batch"]["cost_usd"] + summary["sync"]["cost_usd"])


async def test_all_sync_endpoints_speak_the_sdks_language(client):
    reply = await client.responses.create(model="m", input="Say something")
    assert reply.output_text == expected_text("/v1/responses", {"model": "m", "input": "Say something"})
    vectors = await client.embeddings.create(model="m", input=["a", "b"], dimensions=6)
    assert [len(one.embedding) for one in vectors.data] == [6, 6]
    text = await client.completions.create(model="m", prompt="Once")
    assert text.choices[0].text == expected_text("/v1/completions", {"model": "m", "prompt": "Once"})
    verdict = await client.moderations.create(model="m", input="peace")
    assert not verdict.results[0].flagged
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="m", messages=[])
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(**body(1), stream=True)


async def test_SDK_06_the_sync_rate_limit_says_how_long_to_wait(start):
    emulator = start(sync_rpm=60)
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        for number in range(10):
            await client.chat.completions.create(**body(number))
        # The bucket refills by one a second meanwhile.
        calls = (client.chat.completions.create(**body(number)) for number in range(10, 90))
        replies = await asyncio.gather(*calls, return_exceptions=True)
        limit = next(reply for reply in replies if isinstance(reply, openai.RateLimitError))
        assert limit.code == "rate_limit_exceeded"
        assert int(limit.response.headers["retry-after"]) == 1
        await asyncio.sleep(1.1)
        await client.chat.completions.create(**body(40))


async def test_keys_are_asked_for(start):
    emulator = start(api_key="right")
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.files.list()


async def test_the_server_answers_while_it_works_on_a_large_batch(start):
    emulator = start(turnaround="0s")
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        batch = await submit(client, input_file(20_000))
        polls, start = [], time.monotonic()
        while True:
            began = time.monotonic()
            status = (await client.batches.retrieve(batch.id)).status
            polls.append(time.monotonic() - began)
            if status == "completed":
                break
            await asyncio.sleep(0.02)
        # Checking and writing take most of the time: polls that waited for them would be few, and each take its share.
        assert len(polls) > 6
        assert sorted(polls)[len(polls) // 2] < (time.monotonic() - start) / 6


def test_bad_settings_and_plans_stop_the_start_with_a_reason(start, tmp_path):
    with pytest.raises(EmulatorFailed, match=r"requests\.0\.kind"):
        start("a", faults={"requests": [{"kind": "nonsense", "share": 1}]})
    with pytest.raises(EmulatorFailed, match="turnaround"):
        start("b", turnaround="soon")
    running = start("c")
    with pytest.raises(EmulatorFailed, match="another emulator"):
        start("c")
    with pytest.raises(EmulatorFailed, match="requests"):
        running.set_faults({"requests": [{"kind": "http"}]})
    assert running.stop() == 0
