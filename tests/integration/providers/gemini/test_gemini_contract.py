"""google-genai itself against the emulator, as its documentation uses it; and what it is kept from doing."""

import json
from typing import Any

import pytest
from gemini_world import EMBEDDING, FLASH, root_of
from google import genai
from google.genai import errors, types
from groupage.emulator.answers import expected_text
from job_world import CHAT


@pytest.fixture
def client(emulator):
    made = genai.Client(api_key="test", vertexai=False, http_options={"base_url": root_of(emulator.base_url)})
    yield made
    made.close()


def input_file(tmp_path, requests: list[dict[str, Any]]):
    path = tmp_path / "in.jsonl"
    lines = (json.dumps({"key": f"k{n}", "request": request}) + "\n" for n, request in enumerate(requests))
    path.write_text("".join(lines))
    return path


def say(text):
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def test_a_batch_from_upload_to_results(client, emulator, tmp_path):
    path = input_file(tmp_path, [say(f"q {n}") for n in range(7)])
    config = types.UploadFileConfig(display_name="my requests", mime_type="application/jsonl")
    file = client.files.upload(file=str(path), config=config)
    assert (file.display_name, file.size_bytes, file.state.value) == ("my requests", path.stat().st_size, "ACTIVE")
    assert (file.expiration_time - file.create_time).total_seconds() == 48 * 3600
    job = client.batches.create(model=FLASH, src=file.name, config={"display_name": "my batch"})
    assert (job.display_name, job.state, job.model) == ("my batch", "JOB_STATE_PENDING", f"models/{FLASH}")
    emulator.finish()
    job = client.batches.get(name=job.name)
    assert (job.state, job.done) == ("JOB_STATE_SUCCEEDED", True)
    rows = [json.loads(row) for row in client.files.download(file=job.dest.file_name).split(b"\n")[:-1]]
    assert sorted(row["key"] for row in rows) == [f"k{n}" for n in range(7)]
    for row in rows:
        answer = types.GenerateContentResponse.model_validate(row["response"])
        asked = {"model": FLASH, "messages": [{"role": "user", "content": f"q {row['key'][1:]}"}]}
        assert answer.text == expected_text(CHAT, asked)
        assert answer.usage_metadata.total_token_count > 0
    with pytest.raises(errors.ClientError, match="cannot be more than 40 characters"):
        client.files.delete(name=job.dest.file_name)
    client.batches.delete(name=job.name)
    client.files.delete(name=file.name)
    assert list(client.batches.list()) == []


def test_embeddings_in_a_batch(client, emulator, tmp_path):
    requests = [{"content": {"parts": [{"text": f"t {n}"}]}, "output_dimensionality": 16} for n in range(3)]
    file = client.files.upload(file=str(input_file(tmp_path, requests)), config={"mime_type": "application/jsonl"})
    with pytest.warns(Warning, match="experimental"):
        job = client.batches.create_embeddings(
            model=EMBEDDING, src={"file_name": file.name}, config={"display_name": "vectors"}
        )
    emulator.finish()
    done = client.batches.get(name=job.name)
    rows = [json.loads(row) for row in client.files.download(file=done.dest.file_name).split(b"\n")[:-1]]
    assert {len(row["response"]["embedding"]["values"]) for row in rows} == {16}


def test_listings_have_pages(client, tmp_path):
    file = client.files.upload(file=str(input_file(tmp_path, [say("q")])), config={"mime_type": "application/jsonl"})
    names = [client.batches.create(model=FLASH, src=file.name, config={"display_name": f"b{n}"}).name for n in range(5)]
    assert [job.name for job in client.batches.list(config={"page_size": 2})] == names[::-1]
    with pytest.raises(ValueError, match="filter"):
        client.batches.list(config={"filter": "displayName=b1"})
    assert [found.name for found in client.files.list(config={"page_size": 1})] == [file.name]


def test_cancelling_and_errors(client, tmp_path):
    file = client.files.upload(file=str(input_file(tmp_path, [say("q")])), config={"mime_type": "application/jsonl"})
    job = client.batches.create(model=FLASH, src=file.name, config={"display_name": "b"})
    assert client.batches.cancel(name=job.name) is None
    with pytest.raises(errors.ClientError) as error:
        client.batches.get(name="batches/nothing")
    assert (error.value.code, error.value.status) == (404, "NOT_FOUND")
    with pytest.raises(errors.ClientError) as error:
        client.files.get(name="files/nothing")
    assert (error.value.code, error.value.status) == (403, "PERMISSION_DENIED")
    with pytest.raises(errors.ClientError, match="not downloadable"):
        client.files.download(file=file.name)


def test_one_answer_at_once(client):
    answer = client.models.generate_content(model=FLASH, contents="hello")
    assert answer.text == expected_text(CHAT, {"model": FLASH, "messages": [{"role": "user", "content": "hello"}]})
    wanted = types.GenerateContentConfig(
        response_mime_type="application/json",
        response_schema={"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]},
    )
    structured = client.models.generate_content(model=FLASH, contents="count", config=wanted)
    assert isinstance(json.loads(structured.text)["n"], int)
    said = types.Content(role="narrator", parts=[types.Part(text="hi")])
    with pytest.raises(errors.ClientError, match="valid role"):
        client.models.generate_content(model=FLASH, contents=[said])


def test_the_sdk_alone_sends_a_piece_again_and_sleeps(client, emulator, tmp_path):
    """Why `PieceRefused` is there: if the SDK stops doing so, it can go."""
    emulator.faults(calls=[{"call": "files.create", "action": "error", "status": 503, "nth": [1]}])
    client.files.upload(file=str(input_file(tmp_path, [say("q")])), config={"mime_type": "application/jsonl"})
    assert emulator.state()["calls"]["files.create"] == 2


def test_the_sdk_alone_drops_why_a_batch_failed_and_its_counts(client, emulator, tmp_path):
    """Why looks go past it: if it tells them one day, they need not."""
    emulator.faults(batches=[{"effect": "fail", "code": "INTERNAL"}])
    file = client.files.upload(file=str(input_file(tmp_path, [say("q")])), config={"mime_type": "application/jsonl"})
    job = client.batches.create(model=FLASH, src=file.name, config={"display_name": "b"})
    emulator.advance_at_once("1h")
    for _ in range(200):
        seen = client.batches.get(name=job.name)
        if seen.state == "JOB_STATE_FAILED":
            break
    assert (seen.state, seen.error, seen.completion_stats) == ("JOB_STATE_FAILED", None, None)
