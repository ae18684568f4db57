"""The emulated Azure OpenAI resource, asked by the official SDK's own Azure client."""

import asyncio

import orjson
import pytest
from groupage.emulator.process import EmulatorProcess
from openai import AsyncAzureOpenAI, AsyncOpenAI, AuthenticationError, BadRequestError, NotFoundError

VERSION = "2024-10-21"
CHAT = "/chat/completions"
EXPIRES = {"anchor": "created_at", "seconds": 14 * 86_400}


def line(n, **over):
    body = {"model": "dep", "messages": [{"role": "user", "content": f"azure question {n}"}]}
    return orjson.dumps({"custom_id": f"c{n}", "method": "POST", "url": CHAT, "body": body} | over) + b"\n"


@pytest.fixture
def start(tmp_path):
    running = []

    def make(**options):
        running.append(EmulatorProcess(tmp_path / f"state-{len(running)}", turnaround="1s", **options))
        return running[-1].start()

    yield make
    for one in running:
        assert one.stop() == 0


def root_of(emulator):
    return emulator.base_url.removesuffix("/v1")


def legacy(emulator, key="k"):
    return AsyncAzureOpenAI(azure_endpoint=root_of(emulator), api_version=VERSION, api_key=key, max_retries=0)


def v1(emulator, key="k"):
    return AsyncOpenAI(base_url=f"{root_of(emulator)}/openai/v1/", api_key=key, max_retries=0)


async def upload(client, *lines, **more):
    file = await client.files.create(file=("in.jsonl", b"".join(lines)), purpose="batch", **more)
    for _ in range(3000):
        if (await client.files.retrieve(file.id)).status == "processed":
            return file
        await asyncio.sleep(0.05)
    raise AssertionError(f"{file.id} is never processed")


async def ended(client, batch_id):
    while True:
        batch = await client.batches.retrieve(batch_id)
        if batch.status.lower() in {"completed", "failed", "expired", "cancelled", "canceled"}:
            return batch
        await asyncio.sleep(0.05)


async def test_both_surfaces_show_one_resource_each_in_its_own_spelling(start):
    emulator = start()
    async with legacy(emulator) as old, v1(emulator, "another key") as new:
        file = await upload(old, line(1), line(2, url="/v1/chat/completions"))
        made = await old.batches.create(endpoint=CHAT, input_file_id=file.id, completion_window="24h")
        assert made.status == "Validating"
        done = await ended(new, made.id)
        assert (done.status, done.request_counts.completed) == ("completed", 2)
        assert isinstance(done.completed_at, int)
        again = await old.batches.retrieve(made.id)
        assert again.status == "Completed"
        assert str(again.completed_at).startswith("20"), "an ISO date"
        assert (await new.files.content(done.error_file_id)).content == b""
        rows = [orjson.loads(row) for row in (await new.files.content(done.output_file_id)).content.split(b"\n")[:-1]]
    for row in rows:
        assert set(row) == {"custom_id", "response", "error"}, "no id of its own"
        assert row["response"]["body"]["choices"][0]["content_filter_results"]["hate"]["severity"] == "safe"
        assert row["response"]["body"]["prompt_filter_results"]


async def test_a_file_is_pending_first_and_no_batch_is_made_of_it_then(start):
    emulator = start(file_processing="1h")
    async with v1(emulator) as client:
        file = await client.files.create(file=("in.jsonl", line(1)), purpose="batch")
        assert file.status == "pending"
        with pytest.raises(BadRequestError, match="not processed yet"):
            await client.batches.create(endpoint=CHAT, input_file_id=file.id, completion_window="24h")
        emulator.advance("2h")
        assert (await client.files.retrieve(file.id)).status == "processed"
        await client.batches.create(endpoint=CHAT, input_file_id=file.id, completion_window="24h")


async def test_CL_01_files_with_and_without_an_expiry_have_quotas_of_their_own(start):
    emulator = start(max_files=2)
    async with v1(emulator) as client:

        async def send(**more):
            return await client.files.create(file=("in.jsonl", line(1)), purpose="batch", **more)

        first = [await send(), await send()]
        assert first[0].expires_at is None
        with pytest.raises(BadRequestError, match="quota for files without expiry is reached") as full:
            await send()
        assert full.value.code == "quotaExceeded"
        expiring = [await send(expires_after=EXPIRES) for _ in range(2)]
        assert expiring[0].expires_at - expiring[0].created_at == 14 * 86_400
        with pytest.raises(BadRequestError, match="with expiry"):
            await send(expires_after=EXPIRES)
        await client.files.delete(first[0].id)
        await send()
        with pytest.raises(BadRequestError, match="1209600"):
            await send(expires_after={"anchor": "created_at", "seconds": 3600})


async def test_a_batch_is_not_ended_when_its_day_is_over(start):
    emulator = start(faults={"batches": [{"effect": "turnaround", "seconds": "50h"}]})
    async with v1(emulator) as client:
        file = await upload(client, line(1))
        made = await client.batches.create(endpoint=CHAT, input_file_id=file.id, completion_window="24h")
        emulator.advance("49h")
        seen = await client.batches.retrieve(made.id)
        while seen.status == "validating":
            seen = await client.batches.retrieve(made.id)
        assert (seen.status, seen.expires_at - seen.created_at) == ("finalizing", 86_400)
        emulator.advance("3h")
        assert (await ended(client, made.id)).status == "completed"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([b"{\n"], "invalid_json_line"),
        ([b"\xef\xbb\xbf" + line(1)], "invalid_json_line"),
        ([line(1), line(1)], "duplicate_custom_id"),
        ([line(1, url="/v1/embeddings")], "url_mismatch"),
        ([line(1), line(2, body={"model": "other", "messages": []})], "model_mismatch"),
        ([line(1, body="text")], "invalid_request"),
        ([b"\n"], "empty_file"),
        ([line(n) for n in range(4)], "too_many_tasks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_file_is_refused_in_azures_words(start, lines, code):
    emulator = start(max_requests=3, file_processing="0s")
    async with v1(emulator) as client:
        file = await upload(client, *lines)
        made = await client.batches.create(endpoint=CHAT, input_file_id=file.id, completion_window="24h")
        failed = await ended(client, made.id)
    assert (failed.status, failed.errors.data[0].code) == ("failed", code)


async def test_keys_and_versions_are_looked_at(start):
    emulator = start(api_key="k")
    async with legacy(emulator, "wrong") as wrong, v1(emulator, "wrong") as bearer:
        for client in (wrong, bearer):
            with pytest.raises(AuthenticationError):
                await client.batches.list()
    async with AsyncOpenAI(base_url=f"{root_of(emulator)}/openai", api_key="k", max_retries=0) as versionless:
        with pytest.raises(NotFoundError, match="Resource not found"):
            await versionless.batches.list()
    async with legacy(emulator) as client:
        answer = await client.chat.completions.create(model="dep", messages=[{"role": "user", "content": "hi"}])
        assert answer.choices[0].message.content
        path = "/deployments/one/chat/completions"
        with pytest.raises(NotFoundError, match="deployment for this resource does not exist"):
            await client.post(
                path, cast_to=object, body={"model": "two", "messages": [{"role": "user", "content": "h"}]}
            )
