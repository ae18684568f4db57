"""Find or create: batches and files are found by their display name, in all pages of a listing."""

from datetime import UTC, datetime

import pytest
from gemini_world import EMBEDDING, FLASH, ask, uploaded
from groupage.schemas import ErrorClass
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from provider_world import attempt_of, attempts_of
from temporalio.exceptions import ApplicationError


def batches_at(emulator):
    return emulator.state()["batches"]


async def test_QU_02_a_full_queue_of_batches_is_waited_for(make_world, emulator, tmp_path):
    from provider_world import Emulator

    other = Emulator(tmp_path / "full", "--max-jobs", "1")
    try:
        world = make_world(provider={"base_url": other.base_url.removesuffix("/v1")})
        world.emulator = other
        first = await world.planned()
        await world.submit(first)
        second = await world.planned()
        with pytest.raises(ApplicationError) as failure:
            await attempt_of(world.activities.submit_batch, SubmitBatch(shard=second))
        assert failure.value.type == "provider.quota"
        other.finish()
        assert (await world.submit(second, attempt=2)).batch_id
    finally:
        other.close()


async def test_a_batch_is_found_on_a_later_page_and_not_by_a_part_of_its_name(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.providers.gemini.PAGE", 2)
    ref = await world.planned()
    submitted = await world.submit(ref)
    name = uploaded(emulator)[0]["name"]
    for n in range(5):
        body = {"batch": {"displayName": f"theirs {n}", "inputConfig": {"fileName": name}}}
        ask(emulator, f"models/{FLASH}:batchGenerateContent", method="POST", body=body)
    found = await world.adapter.find(ref.tag, since=world.started_at, not_ids=[])
    assert found.batch_id == submitted.batch_id
    assert world.calls("batches.list") >= 3
    assert await world.adapter.find(ref.tag[:-1], since=None, not_ids=[]) is None
    assert await world.adapter.find(f"{ref.tag}0", since=None, not_ids=[]) is None
    assert await world.adapter.find(ref.tag, since=datetime(2100, 1, 1, tzinfo=UTC), not_ids=[]) is None


async def test_an_upload_is_found_again_by_its_name_and_one_of_another_size_replaced(world, emulator):
    ref = await world.planned()
    submission = world.submission(ref, b'{"key":"a","request":{}}\n')
    first = await world.adapter.upload(submission)
    again = await world.adapter.upload(
        world.submission(ref, b'{"key":"a","request":{}}\n', look_since=world.started_at)
    )
    assert again == first
    other = await world.adapter.upload(world.submission(ref, b"{}\n", look_since=world.started_at))
    assert other != first
    assert [(file["name"], file["displayName"], file["sizeBytes"]) for file in uploaded(emulator)] == [
        (other[0], ref.tag, "3")
    ]


@pytest.mark.parametrize(
    "fault",
    [
        {"call": "uploads.create", "action": "error", "status": 503},
        {"call": "uploads.create", "action": "html"},
        {"call": "uploads.create", "action": "drop_before"},
        {"call": "files.create", "action": "error", "status": 503},
        {"call": "files.create", "action": "html"},
        {"call": "files.create", "action": "drop_after"},
        {"call": "files.create", "action": "error_after", "status": 500},
    ],
    ids=lambda fault: f"{fault['call']} {fault['action']}",
)
async def test_an_upload_that_fails_is_tried_once_and_found_or_made_again(world, emulator, fault):
    emulator.faults(calls=[{**fault, "nth": [1]}])
    ref = await world.planned()
    before = datetime.now(UTC)
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert failures[0].type == "provider.transient", failures[0]
    assert (datetime.now(UTC) - before).total_seconds() < 10
    assert emulator.creates() == 1
    tried = world.calls("files.create")
    # Where the file was made though its reply was lost, it is found: nothing goes up a second time.
    assert tried == (1 if fault["action"] in {"drop_after", "error_after"} or fault["call"] != "files.create" else 2)
    assert len(uploaded(emulator)) == 1
    assert submitted.input_files == [uploaded(emulator)[0]["name"]]


async def test_a_large_input_goes_up_in_pieces(world, emulator):
    ref = await world.planned()
    content = b'{"key":"a","request":{"contents":[{"parts":[{"text":"%b"}]}]}}\n' % (b"x" * 20_000_000)
    (name,) = await world.adapter.upload(world.submission(ref, content))
    assert (world.calls("uploads.part"), world.calls("files.create")) == (2, 1)
    assert ask(emulator, name)["sizeBytes"] == str(len(content))


async def test_a_file_that_is_gone_at_create_is_uploaded_again(world, emulator):
    ref = await world.planned()
    with pytest.raises(ProviderError) as error:
        await world.adapter.create(world.submission(ref), ["files/nothing"])
    assert error.value.error_class is ErrorClass.missing
    assert not isinstance(error.value, AmbiguousCreate)
    assert batches_at(emulator) == []


async def test_IV_13_models_have_batches_of_their_own_each_by_its_create_call(world, emulator):
    lines = [
        {"id": f"{model} {n}", "body": {"model": model, "messages": [{"role": "user", "content": f"q {n}"}]}}
        for n in range(3)
        for model in (FLASH, "gemini-2.5-pro")
    ]
    lines += [
        {"id": f"e{n}", "url": "/v1/embeddings", "body": {"model": EMBEDDING, "input": f"t {n}"}} for n in range(3)
    ]
    await world.prepare(lines)
    assert (await world.plan()).batch_shards == 3
    for shard in range(3):
        await world.submit(world.ref(0, shard))
    shown = ask(emulator, "batches")["operations"]
    kinds = {one["metadata"]["model"]: one["metadata"]["@type"].rpartition(".")[2] for one in shown}
    assert kinds == {
        "models/gemini-2.5-flash": "GenerateContentBatch",
        "models/gemini-2.5-pro": "GenerateContentBatch",
        "models/gemini-embedding-001": "EmbedContentBatch",
    }


async def test_vertex_switches_of_the_environment_change_nothing(make_world, monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "somebodys")
    world = make_world()
    ref = await world.planned()
    assert (await world.submit(ref)).batch_id.startswith("batches/")


@pytest.mark.parametrize(
    ("given", "works"), [({}, False), ({"GOOGLE_API_KEY": "test"}, True)], ids=["no key", "google"]
)
async def test_a_key_may_stand_in_either_variable_and_must_stand_in_one(make_world, monkeypatch, given, works):
    monkeypatch.delenv("GEMINI_API_KEY")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    adapter = make_world().adapter
    if works:
        assert await adapter.find("gabcdef-abcdefghijklm-r0-s0", since=None, not_ids=[]) is None
        return
    with pytest.raises(ProviderError, match="no API key is known") as error:
        await adapter.find("gabcdef-abcdefghijklm-r0-s0", since=None, not_ids=[])
    assert error.value.error_class is ErrorClass.account
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in error.value.hint


async def test_a_wrong_key_is_the_accounts_trouble(make_world):
    adapter = make_world(provider={"api_key": "wrong"}).adapter
    with pytest.raises(ProviderError) as error:
        await adapter.find("gabcdef-abcdefghijklm-r0-s0", since=None, not_ids=[])
    assert error.value.error_class is ErrorClass.account
