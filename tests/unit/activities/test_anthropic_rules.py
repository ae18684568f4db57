"""The adapter's pure parts: classes of errors, batch objects of every kind, guesses, the streamed body."""

from datetime import UTC, datetime

import anthropic
import httpx2
import orjson
import pytest
from anthropic.types.messages import MessageBatch
from groupage.activities.providers.anthropic import AnthropicProvider
from groupage.activities.providers.anthropic_batches import (
    guess_id,
    not_ours,
    read_batch,
    read_guess,
    read_http_date,
    undecided,
)
from groupage.activities.providers.anthropic_errors import classify, translate
from groupage.activities.providers.anthropic_transfer import body_size, stream_body
from groupage.activities.providers.base import Traits, traits_of
from groupage.activities.providers.openai import OpenAIProvider
from groupage.activities.providers.openai_errors import create_failed
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages/batches")
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TAG = "gk3v2q2-4f7xk2m2ab3cd-r0-s7"


USAGE_LIMITS = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."


def error(kind, text="", code=None):
    inner = {"type": kind, "message": text} | ({"details": {"error_code": code}} if code else {})
    return {"type": "error", "error": inner, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error("invalid_request_error", "max_tokens: Field required"), ErrorClass.invalid),
        (400, error("invalid_request_error", "Your credit balance is too low to access"), ErrorClass.account),
        (400, error("invalid_request_error", "", "organization_on_hold"), ErrorClass.account),
        (400, error("invalid_request_error", USAGE_LIMITS), ErrorClass.account),
        (None, error("invalid_request_error", USAGE_LIMITS), ErrorClass.account),
        (400, error("invalid_request_error", "This organization has been disabled."), ErrorClass.account),
        (None, error("invalid_request_error", "This organization has been disabled."), ErrorClass.account),
        (401, error("authentication_error"), ErrorClass.account),
        (402, error("billing_error"), ErrorClass.account),
        (403, error("permission_error"), ErrorClass.forbidden),
        (404, error("not_found_error"), ErrorClass.missing),
        (404, "<html>nothing here</html>", ErrorClass.transient),
        (413, error("request_too_large"), ErrorClass.too_large),
        (413, "too big", ErrorClass.too_large),
        (400, error("invalid_request_error", "", "request_body_too_large_after_decoding"), ErrorClass.too_large),
        (429, error("rate_limit_error"), ErrorClass.rate_limit),
        (429, error("rate_limit_error", "", "ramp_limit_exceeded"), ErrorClass.rate_limit),
        (429, error("rate_limit_error", "", "enforced_spend_limit_reached"), ErrorClass.account),
        (429, error("rate_limit_error", "", "contract_spend_limit_reached"), ErrorClass.account),
        (429, error("rate_limit_error", "batch requests in the processing queue: limit reached"), ErrorClass.quota),
        (500, error("api_error"), ErrorClass.transient),
        (503, error("api_error", "", "cmek_key_unreachable"), ErrorClass.transient),
        (503, "", ErrorClass.transient),
        (504, error("timeout_error"), ErrorClass.transient),
        (529, error("overloaded_error"), ErrorClass.transient),
        (409, error("conflict_error"), ErrorClass.transient),
        (408, None, ErrorClass.transient),
        (422, None, ErrorClass.invalid),
        (None, None, ErrorClass.unknown),
    ],
)
def test_TE_09_an_error_has_our_class(status, body, expected):
    assert classify(status, body)[0] is expected


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529, 408, 409])
def test_SU_02_a_create_that_may_have_been_accepted_is_ambiguous(status):
    response = httpx2.Response(status, json=error("api_error"), request=REQUEST, headers={"retry-after": "3"})
    failure = translate(anthropic.APIStatusError("no", response=response, body=error("api_error")), "create")
    made = create_failed(failure)
    assert isinstance(made, AmbiguousCreate)
    assert made.retry_after_s == 3


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 429])
def test_a_create_that_is_clearly_refused_is_not_ambiguous(status):
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    body = error(kinds.get(status, "invalid_request_error"))
    response = httpx2.Response(status, json=body, request=REQUEST)
    failure = translate(anthropic.APIStatusError("no", response=response, body=body), "create")
    assert not isinstance(create_failed(failure), AmbiguousCreate)


def test_a_connection_that_was_never_made_sent_nothing():
    lost = anthropic.APIConnectionError(request=REQUEST)
    lost.__cause__ = httpx2.ConnectError("refused")
    assert not isinstance(create_failed(translate(lost, "create")), AmbiguousCreate)
    lost.__cause__ = httpx2.ReadError("reset")
    assert isinstance(create_failed(translate(lost, "create")), AmbiguousCreate)


def batch(status="ended", counts=None, **fields):
    shown = {
        "id": "msgbatch_1",
        "type": "message_batch",
        "processing_status": status,
        "request_counts": {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0} | (counts or {}),
        "created_at": "2026-11-29T12:00:00.123456Z",
        "expires_at": "2026-11-30T12:00:00.123456Z",
        "ended_at": None,
        "cancel_initiated_at": None,
        "archived_at": None,
        "results_url": "https://example.invalid/v1/messages/batches/msgbatch_1/results" if status == "ended" else None,
        **fields,
    }
    if status in {"in_progress", "canceling", "ended"} and "request_counts" not in fields:
        MessageBatch.model_validate(shown)
    return shown


@pytest.mark.parametrize(
    ("shown", "phase", "told"),
    [
        (batch("in_progress", {"processing": 9}), BatchPhase.in_progress, (9, -1, -1)),
        (batch("canceling", {"processing": 9}), BatchPhase.cancelling, (9, -1, -1)),
        (batch("ended", {"succeeded": 9}), BatchPhase.completed, (9, 9, 0)),
        (batch("ended", {"errored": 9}), BatchPhase.completed, (9, 0, 9)),
        (batch("ended", {"succeeded": 4, "expired": 5}), BatchPhase.expired, (9, 4, 0)),
        (batch("ended", {"succeeded": 4, "canceled": 5}), BatchPhase.cancelled, (9, 4, 0)),
        (batch("ended", request_counts=None), BatchPhase.completed, (-1, -1, -1)),
        (batch("ended", request_counts=None, cancel_initiated_at="2026-11-29T12:00:00Z"), BatchPhase.cancelled, (-1,) * 3),
        (batch("paused", {"processing": 9}), BatchPhase.unknown, (9, -1, -1)),
        (batch(None, {"processing": 9}), BatchPhase.unknown, (9, -1, -1)),
    ],
)  # fmt: skip
def test_PO_05_every_state_has_its_phase_and_counts_are_told_only_when_it_has_ended(shown, phase, told):
    status = read_batch(shown)
    assert status.phase is phase
    assert (status.total, status.completed, status.failed) == told
    assert status.created_at == datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
    assert bool(status.warning) == (phase is BatchPhase.unknown)


def test_an_ended_batch_without_results_is_late_or_archived():
    late = read_batch(batch("ended", {"succeeded": 1}, results_url=None))
    assert (late.phase, late.settles_as) == (BatchPhase.finalizing, BatchPhase.completed)
    gone = read_batch(batch("ended", {"succeeded": 1}, results_url=None, archived_at="2026-12-28T12:00:00Z"))
    assert gone.phase is BatchPhase.completed
    assert gone.error.error_class is ErrorClass.missing
    assert gone.output_files == []


def test_what_is_no_batch_object_is_refused():
    with pytest.raises(ValueError, match="no batch id"):
        read_batch({"data": []})


def test_a_guess_names_its_tag_and_its_batches():
    guessed = guess_id(TAG, ["msgbatch_1", "msgbatch_2"])
    assert read_guess(guessed) == (TAG, ["msgbatch_1", "msgbatch_2"])
    assert read_guess("msgbatch_1") is None
    given_up = not_ours(guessed, TAG, ["msgbatch_1"])
    assert given_up.phase is BatchPhase.failed
    assert given_up.error.error_class is ErrorClass.transient
    waiting = undecided(guessed, TAG, [read_batch(batch("in_progress", {"processing": 9}))])
    assert (waiting.phase, waiting.total) == (BatchPhase.in_progress, 9)


def test_a_date_header_is_read_or_ignored():
    assert read_http_date("Sun, 29 Nov 2026 12:00:00 GMT") == NOW
    assert read_http_date("yesterday") is None
    assert read_http_date(None) is None


async def test_the_streamed_body_is_the_sdks_own_shape_and_as_long_as_announced(tmp_path):
    adapter = AnthropicProvider("anthropic", ProviderSettings())
    params = [
        orjson.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}) for text in ("a", "\u2028é")
    ]
    path = tmp_path / "in"
    path.write_bytes(b"".join(adapter.render(f"w-{n}", "/v1/messages", body) for n, body in enumerate(params)))
    sent = b"".join([chunk async for chunk in stream_body(path)])
    assert len(sent) == body_size(path)
    assert orjson.loads(sent) == {
        "requests": [{"custom_id": f"w-{n}", "params": orjson.loads(body)} for n, body in enumerate(params)]
    }
    assert path.read_bytes().count(b"\n") == 2, "one element a line, whatever is in it"


async def test_a_body_over_the_limit_is_refused_before_anything_is_sent(tmp_path):
    from groupage.activities.providers.base import Submission

    path = tmp_path / "in"
    with path.open("wb") as file:
        file.truncate(256_000_001)
    adapter = AnthropicProvider("anthropic", ProviderSettings(base_url="http://127.0.0.1:1", api_key="k"))
    with pytest.raises(ProviderError) as failure:
        await adapter.upload(Submission("t", "/v1/messages", "m", path, 1, NOW))
    assert failure.value.error_class is ErrorClass.too_large


def test_a_request_that_intake_would_have_refused_is_invalid():
    adapter = AnthropicProvider("anthropic", ProviderSettings())
    body = orjson.dumps(
        {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "x"}], "logprobs": True}
    )
    with pytest.raises(ProviderError) as failure:
        adapter.render("w", "/v1/chat/completions", body)
    assert failure.value.error_class is ErrorClass.invalid
    assert adapter.render("w", "/v1/chat/completions", b"{}") == b'{"custom_id":"w","params":{}},\n'


def test_traits_tell_the_generic_steps_what_is_different():
    assert traits_of(OpenAIProvider("openai", ProviderSettings())) == Traits()
    anthropic_traits = traits_of(AnthropicProvider("anthropic", ProviderSettings()))
    assert (anthropic_traits.tags, anthropic_traits.inline) == (False, True)


def test_a_profiles_own_limits_win():
    limits = AnthropicProvider("anthropic", ProviderSettings(max_requests=7, max_bytes=1000)).limits(
        "/v1/messages", "m"
    )
    assert (limits.max_requests, limits.max_bytes, limits.max_line_bytes) == (7, 1000, 1000)
    usual = AnthropicProvider("anthropic", ProviderSettings()).limits("/v1/messages", "m")
    assert usual.max_requests == 100_000
    assert usual.max_bytes <= 256_000_000


def test_the_window_lasts_as_long_as_a_create_that_carries_its_input():
    from groupage.activities.registry import Context
    from groupage.schemas import JobRef

    context = Context(ActivitySettings(store_url="memory://", create_visibility_s=120))
    job = JobRef(tenant="t", key="k", token="gaaaaaa-aaaaaaaaaaaaa", provider="anthropic")
    window = context.window_of(job)
    assert window.create_timeout_s == 300
    assert window.longest_s == 30 + 300 + 30
    usual = context.window_of(job.model_copy(update={"provider": "openai"}))
    assert (usual.create_timeout_s, usual.longest_s) == (60, 120)
