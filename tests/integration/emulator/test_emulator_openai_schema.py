"""What the emulator says at OpenAI's side is what the SDK's models say, to the field."""

import json
import time
from typing import Any, Literal

import orjson
import pytest
from emulator_world import CHAT, body, input_file
from openai.types import Batch, Completion, CreateEmbeddingResponse, FileDeleted, FileObject, ModerationCreateResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import ValidationError
from strict import Strict, ask, held_to, upload


class ErrorObject(Strict):
    """`error` of an error reply (API reference, "Errors")."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(Strict):
    error: ErrorObject


class Page(Strict):
    """A page of a listing."""

    object: Literal["list"]
    first_id: str | None
    last_id: str | None
    has_more: bool


class BatchPage(Page):
    data: list[Batch]


class FilePage(Page):
    data: list[FileObject]


class LineResponse(Strict):
    status_code: int
    request_id: str
    body: dict[str, Any]


class LineError(Strict):
    code: str
    message: str


class ResultLine(Strict):
    """A line of an output or error file (API reference, "The request output object")."""

    id: str
    custom_id: str
    response: LineResponse | None
    error: LineError | None


STATES = {"validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"}


def created(url: str, content: bytes, **more: Any) -> dict[str, Any]:
    file = held_to(FileObject, upload(url, content)[1])
    given = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", **more}
    status, raw = ask(f"{url}/batches", "POST", given)
    assert status == 200, raw
    return held_to(Batch, raw)


def ended(process, batch_id: str, seen: set[str]) -> dict[str, Any]:
    """Step through a batch's life; `seen` collects its states."""
    for turn in range(400):
        batch = held_to(Batch, ask(f"{process.base_url}/batches/{batch_id}")[1])
        seen.add(batch["status"])
        if batch["status"] in {"completed", "failed", "expired", "cancelled"}:
            return batch
        # Not before the input was read, which takes real time; a file that is refused shows no count.
        if batch["request_counts"]["total"] or turn > 50:
            process.advance(30)
        time.sleep(0.02)
    raise AssertionError(f"no end of {batch}")


def lines_of(url: str, batch: dict[str, Any]) -> list[dict[str, Any]]:
    files = [batch[name] for name in ("output_file_id", "error_file_id") if batch[name]]
    raw = b"".join(ask(f"{url}/files/{file}/content")[1] for file in files)
    return [held_to(ResultLine, line) for line in raw.split(b"\n")[:-1]]


@pytest.fixture
def slow(start):
    return start(turnaround="10m", cancel_takes="2m")


def test_a_batch_fits_the_sdks_model_in_every_state(slow):
    url, seen = slow.base_url, set()
    slow.set_faults(
        {
            "requests": [{"kind": "http", "status": 400, "share": 0.2}],
            "batches": [{"effect": "expire", "at": 0.5, "tag": "late"}, {"effect": "stall", "at": 0.5, "tag": "stuck"}],
        }
    )
    done = ended(slow, created(url, input_file(20), metadata={"any": "thing"})["id"], seen)
    assert done["usage"]["total_tokens"] > 0
    assert done["request_counts"]["failed"] > 0
    lines = lines_of(url, done)
    assert len(lines) == 20
    assert {line["error"] is None for line in lines} == {True}
    for line in lines:
        if line["response"]["status_code"] == 200:
            held_to(ChatCompletion, orjson.dumps(line["response"]["body"]))
        else:
            held_to(ErrorReply, orjson.dumps(line["response"]["body"]))
    failed = ended(slow, created(url, b'{"custom_id": "a"}\n' + input_file(2))["id"], seen)
    assert failed["errors"]["object"] == "list"
    assert failed["errors"]["data"]
    expired = ended(slow, created(url, input_file(10), metadata={"tag": "late"})["id"], seen)
    assert {line["error"]["code"] for line in lines_of(url, expired) if line["response"] is None} == {"batch_expired"}
    stuck = created(url, input_file(10), metadata={"tag": "stuck"})
    while not held_to(Batch, ask(f"{url}/batches/{stuck['id']}")[1])["request_counts"]["completed"]:
        slow.advance(60)
        time.sleep(0.02)
    held_to(Batch, ask(f"{url}/batches/{stuck['id']}/cancel", "POST")[1])
    cancelled = ended(slow, stuck["id"], seen)
    codes = {line["error"]["code"] for line in lines_of(url, cancelled) if line["response"] is None}
    assert codes == {"batch_cancelled"}
    assert seen == STATES, "every state was looked at"
    page = held_to(BatchPage, ask(f"{url}/batches?limit=2")[1])
    assert (len(page["data"]), page["has_more"]) == (2, True)
    assert page["first_id"] == page["data"][0]["id"]


def test_files_fit_the_sdks_model(emulator):
    url = emulator.base_url
    made = [held_to(FileObject, upload(url, input_file(1))[1]) for _ in range(3)]
    held_to(FileObject, ask(f"{url}/files/{made[0]['id']}")[1])
    page = held_to(FilePage, ask(f"{url}/files?limit=2&purpose=batch")[1])
    assert [file["id"] for file in page["data"]] == [made[2]["id"], made[1]["id"]]
    held_to(FilePage, ask(f"{url}/files?purpose=batch_output")[1])
    assert held_to(FileDeleted, ask(f"{url}/files/{made[0]['id']}", "DELETE")[1])["deleted"] is True


def test_every_refusal_is_an_error_object(start):
    process = start(turnaround="0s", max_file_bytes=2000, max_files=1, sync_rpm=60)
    url = process.base_url
    file = held_to(FileObject, upload(url, input_file(1))[1])
    good = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    refused = [
        (401, ask(f"{url}/files", headers={"Authorization": ""})),
        (404, ask(f"{url}/files/file-none")),
        (404, ask(f"{url}/batches/batch_none")),
        (404, ask(f"{url}/batches", "POST", good | {"input_file_id": "file-none"})),
        (400, ask(f"{url}/batches", "POST", good | {"endpoint": "/v1/nothing"})),
        (400, ask(f"{url}/batches", "POST", good | {"completion_window": "1h"})),
        (400, ask(f"{url}/batches", "POST", good | {"metadata": {"a": "x" * 513}})),
        (400, ask(f"{url}/batches", "POST", b"{")),
        (400, ask(f"{url}/batches?limit=1000")),
        (400, upload(url, input_file(1))),
        (400, upload(url, b"", purpose="nothing")),
        (413, upload(url, b"x" * 5000)),
        (400, ask(f"{url}/chat/completions", "POST", {"model": "m"})),
    ]
    batch = held_to(Batch, ask(f"{url}/batches", "POST", good)[1])
    for _ in range(3000):
        if held_to(Batch, ask(f"{url}/batches/{batch['id']}")[1])["status"] == "completed":
            break
        time.sleep(0.02)
    refused.append((409, ask(f"{url}/batches/{batch['id']}/cancel", "POST")))
    process.set_faults({"calls": [{"call": "batches.retrieve", "action": "error", "status": 500}]})
    refused.append((500, ask(f"{url}/batches/{batch['id']}")))
    replies = (ask(f"{url}{CHAT[3:]}", "POST", body(n)) for n in range(200))
    refused.append(next((429, reply) for reply in replies if reply[0] != 200))
    for wanted, (status, raw) in refused:
        assert status == wanted, raw
        assert held_to(ErrorReply, raw)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "given", "model"),
    [
        ("/chat/completions", body(1), ChatCompletion),
        ("/responses", {"model": "m", "input": "What?"}, Response),
        ("/embeddings", {"model": "m", "input": ["a", "b"]}, CreateEmbeddingResponse),
        ("/completions", {"model": "m", "prompt": "Once"}, Completion),
        ("/moderations", {"model": "m", "input": "a"}, ModerationCreateResponse),
    ],
)
def test_every_kind_of_answer_fits_the_sdks_model(emulator, path: str, given: dict[str, Any], model: Any):
    status, raw = ask(emulator.base_url + path, "POST", given)
    assert status == 200, raw
    held_to(model, raw)


def test_the_check_is_strict():
    good = json.loads(
        '{"id":"f","object":"file","bytes":1,"created_at":1,"filename":"a","purpose":"batch","status":"processed"}'
    )
    held_to(FileObject, orjson.dumps(good))
    for wrong in ({"bytes": "1"}, {"status": "strange"}, {"created_at": None}):
        with pytest.raises(ValidationError):
            held_to(FileObject, orjson.dumps(good | wrong))
    with pytest.raises(AssertionError, match="colour"):
        held_to(FileObject, orjson.dumps(good | {"colour": 1}))
