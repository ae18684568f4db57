"""Limits, lines, states and exceptions: what needs no server."""

import subprocess
import sys

import httpx2
import orjson
import pytest
from google.genai import errors, types
from groupage.activities.providers import sdk_loading
from groupage.activities.providers.base import ResultFile
from groupage.activities.providers.gemini import GeminiProvider
from groupage.activities.providers.gemini_batches import phase_of, read_operation
from groupage.activities.providers.gemini_bodies import model_path, render
from groupage.activities.providers.gemini_errors import PieceRefused, translate
from groupage.activities.providers.openai_errors import create_failed
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
CHAT = "/v1/chat/completions"


def test_limits_are_the_catalogs_and_leave_room_for_translating():
    provider = GeminiProvider("gemini", ProviderSettings())
    native = provider.limits("/generateContent", "gemini-2.5-flash")
    assert (native.max_bytes, native.min_requests, native.completion_window_s) == (2_000_000_000, 1, 48 * 3600)
    assert native.max_tokens == 3_000_000
    portable = provider.limits(CHAT, "gemini-2.5-pro")
    assert (portable.max_bytes, portable.max_tokens) == (1_000_000_000, 5_000_000)
    own = GeminiProvider("gemini", ProviderSettings(max_bytes=500, max_requests=3, max_tokens=7))
    assert (own.limits(CHAT, "x").max_bytes, own.limits(CHAT, "x").max_requests, own.limits(CHAT, "x").max_tokens) == (
        500,
        3,
        7,
    )


def test_a_portable_line_is_in_geminis_words_without_its_model():
    body = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    line = render(WIRE, CHAT, orjson.dumps(body))
    assert line.endswith(b"}\n")
    assert orjson.loads(line) == {
        "key": WIRE,
        "request": {
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "generationConfig": {"maxOutputTokens": 5},
        },
    }
    assert render(WIRE, CHAT, b"{}") == b'{"key":"%b","request":{}}\n' % WIRE.encode()


def test_a_native_line_is_spliced_in_with_integers_of_any_size():
    body = b'{"model":"gemini-2.5-flash","contents":[{"parts":[{"functionResponse":{"response":{"n":123456789012345678901234}}}]}]}'
    line = render(WIRE, "/generateContent", body)
    assert b'"n":123456789012345678901234' in line
    assert b"gemini" not in line


def test_what_cannot_be_said_is_invalid():
    body = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}], "logit_bias": {"1": 1}}
    with pytest.raises(ProviderError, match="logit_bias") as error:
        render(WIRE, CHAT, orjson.dumps(body))
    assert error.value.error_class is ErrorClass.invalid
    with pytest.raises(ProviderError, match="no model"):
        render(WIRE, CHAT, b'{"messages":[]}')
    with pytest.raises(ProviderError, match="not an object"):
        render(WIRE, CHAT, b"[]")


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a b?c", "models/a%20b%3Fc"),
    ],
)
def test_a_models_name_becomes_a_path(model, path):
    assert model_path(model) == path


def test_PO_05_every_state_that_the_sdk_knows_is_known():
    unknown = {state.value for state in types.JobState if phase_of(state.value) is BatchPhase.unknown}
    assert unknown == {"JOB_STATE_UNSPECIFIED"}


def test_an_operation_without_a_state_is_read_by_its_end():
    failed = read_operation({"name": "batches/x", "done": True, "error": {"code": 13, "message": "oops"}})
    assert (failed.phase, failed.error.error_class) == (BatchPhase.failed, ErrorClass.transient)
    done = read_operation({"name": "batches/x", "done": True, "response": {"responsesFile": "files/batch-x"}})
    assert (done.phase, done.output_files) == (BatchPhase.completed, ["files/batch-x"])
    assert read_operation({"name": "batches/x", "metadata": 7}).phase is BatchPhase.unknown


@pytest.mark.parametrize(
    ("stats", "counts"),
    [
        ({"requestCount": "7", "successfulRequestCount": "5", "failedRequestCount": "2"}, (7, 5, 2)),
        ({"requestCount": "7", "pendingRequestCount": "7"}, (7, 0, 0)),
        ({"requestCount": 7, "failedRequestCount": "many"}, (7, 0, -1)),
        ({}, (-1, -1, -1)),
        (None, (-1, -1, -1)),
    ],
)
def test_counts_are_text_and_those_of_0_are_left_out(stats, counts):
    status = read_operation({"name": "batches/x", "metadata": {"state": "BATCH_STATE_RUNNING", "batchStats": stats}})
    assert (status.total, status.completed, status.failed) == counts


def test_a_partially_succeeded_batch_has_ended_although_the_sdk_does_not_think_so():
    batch = types.BatchJob(name="batches/x", state=types.JobState.JOB_STATE_PARTIALLY_SUCCEEDED)
    assert batch.done is not True
    operation = {
        "name": "batches/x",
        "metadata": {"state": batch.state.value},
        "response": {"responsesFile": "files/f"},
    }
    assert read_operation(operation).phase is BatchPhase.completed


def reply(status, body=b"{}", **headers):
    return httpx2.Response(status, content=body, headers=headers, request=httpx2.Request("POST", "http://h/"))


def api_error(status, body=b'{"error":{"status":"INTERNAL","message":"m"}}', **headers):
    return errors.APIError(status, {}, reply(status, body, **headers))


NOT_FOUND = b'{"error":{"code":404,"status":"NOT_FOUND","message":"no"}}'
EXHAUSTED = b'{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down"}}'


@pytest.mark.parametrize(
    ("raised", "kind", "ambiguous"),
    [
        (api_error(500), ErrorClass.transient, True),
        (api_error(503, b"<html>"), ErrorClass.transient, True),
        (api_error(504), ErrorClass.transient, True),
        (api_error(404, NOT_FOUND), ErrorClass.missing, False),
        (api_error(404, b"<html>gateway</html>"), ErrorClass.transient, True),
        (api_error(429, EXHAUSTED, **{"retry-after": "9"}), ErrorClass.rate_limit, False),
        (api_error(400, b'{"error":{"status":"INVALID_ARGUMENT","message":"bad"}}'), ErrorClass.invalid, False),
        (api_error(401, b"{}"), ErrorClass.account, False),
        (api_error(409, b'{"error":{"status":"ABORTED"}}'), ErrorClass.transient, True),
        (api_error(202, b"accepted"), ErrorClass.transient, True),
        (httpx2.ConnectError("refused"), ErrorClass.transient, False),
        (httpx2.ConnectTimeout("slow"), ErrorClass.transient, False),
        (httpx2.ReadTimeout("slow"), ErrorClass.transient, True),
        (httpx2.RemoteProtocolError("cut"), ErrorClass.transient, True),
        (httpx2.UnsupportedProtocol("ftp"), ErrorClass.account, False),
        (PieceRefused(reply(503)), ErrorClass.transient, True),
        (PieceRefused(reply(200, b"<html>")), ErrorClass.transient, True),
        (orjson.JSONDecodeError("no JSON", "", 0), ErrorClass.transient, True),
        (KeyError("Failed to create file."), ErrorClass.transient, True),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Exception) else str(value),
)
def test_TE_09_what_the_sdk_raises_is_classed_and_told_apart_at_create(raised, kind, ambiguous):
    ours = translate(raised, "create of x")
    assert ours is not None
    assert ours.error_class is kind
    assert isinstance(create_failed(ours), AmbiguousCreate) is ambiguous
    if kind is ErrorClass.rate_limit:
        assert ours.retry_after_s == 9


def test_what_nobody_expects_is_not_hidden():
    assert translate(MemoryError(), "x") is None
    assert translate(RuntimeError("loop is closed"), "x") is None


def test_results_are_one_file():
    operation = {
        "name": "batches/x",
        "metadata": {"state": "JOB_STATE_SUCCEEDED", "output": {"responsesFile": "files/y"}},
    }
    provider = GeminiProvider("gemini", ProviderSettings())
    assert provider.result_files(read_operation(operation)) == [ResultFile("output", "files/y")]


async def test_a_missing_package_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.setattr(sdk_loading, "_loaded", set())
    provider = GeminiProvider("gemini", ProviderSettings())
    with pytest.raises(ProviderError, match="httpx2") as error:
        await provider.status("batches/x")
    assert (error.value.error_class, "groupage[gemini]" in error.value.hint) == (ErrorClass.account, True)


def test_the_sdk_is_not_imported_before_it_is_used():
    code = (
        "import sys; from groupage.activities.providers.gemini import GeminiProvider as P;"
        "from groupage.activities.settings import ProviderSettings as S;"
        "p = P('gemini', S()); p.limits('/v1/chat/completions', 'm'); p.render('w', '/v1/chat/completions', b'{}');"
        "sys.exit('google.genai' in sys.modules or 'httpx2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
