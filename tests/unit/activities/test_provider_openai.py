"""The adapter's pure parts: classes of errors, batch objects of every kind, listings, names."""

from datetime import UTC, datetime, timedelta

import httpx2
import openai
import pytest
from groupage.activities.providers.base import RemoteObject
from groupage.activities.providers.batch_objects import rank, read_time
from groupage.activities.providers.call_errors import retry_after_s
from groupage.activities.providers.compatibility import compatibility_of
from groupage.activities.providers.openai import OpenAIProvider
from groupage.activities.providers.openai_address import read_address
from groupage.activities.providers.openai_batches import phase_of, read_batch
from groupage.activities.providers.openai_errors import classify_call, create_failed, translate
from groupage.activities.providers.openai_listing import listed
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/batches")
CHAT = "/v1/chat/completions"


def http_failure(status, body, headers=None):
    response = httpx2.Response(status, json=body, headers=headers, request=REQUEST)
    unwrapped = body.get("error", body) if isinstance(body, dict) else body
    return openai.APIStatusError("failed", response=response, body=unwrapped)


def page_failure(status, text):
    response = httpx2.Response(status, text=text, request=REQUEST)
    return openai.APIStatusError("failed", response=response, body=text)


def connection_failure(cause, *, timeout=False):
    error = openai.APITimeoutError(REQUEST) if timeout else openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (429, "insufficient_quota", "You exceeded your current quota", ErrorClass.account),
        (429, "rate_limit_exceeded", "slow down", ErrorClass.rate_limit),
        (429, None, "", ErrorClass.rate_limit),
        (429, "token_limit_exceeded", "Enqueued token limit reached", ErrorClass.quota),
        (None, "token_limit_exceeded", "Enqueued token limit reached for gpt-4o", ErrorClass.quota),
        (400, "quotaExceeded", "The account holds 500 files; at most 500 are allowed.", ErrorClass.quota),
        (401, "invalid_api_key", "", ErrorClass.account),
        (403, None, "not for you", ErrorClass.account),
        (402, None, "", ErrorClass.account),
        (400, None, "Your credit balance is too low to access the API", ErrorClass.account),
        (400, "Arrearage", "Access denied, please make sure your account is in good standing.", ErrorClass.account),
        (400, "organization_restricted", "Organization has been restricted.", ErrorClass.account),
        (413, None, "", ErrorClass.too_large),
        (400, None, "Too many tokens in batch: 130000 > 120000", ErrorClass.too_large),
        (400, "too_many_tasks", "", ErrorClass.too_large),
        (None, "too_many_tasks", "The number of requests exceeds the limit", ErrorClass.too_large),
        (400, "file_too_large", "", ErrorClass.too_large),
        (None, "too_many_inputs", "The batch holds more than 50000 embedding inputs.", ErrorClass.too_large),
        (400, None, "The batch exceeds the maximum of 50,000 embedding inputs", ErrorClass.too_large),
        (400, None, "The file size exceeds the maximum of 209715200 bytes", ErrorClass.too_large),
        (400, None, "Invalid value for endpoint", ErrorClass.invalid),
        (422, None, "unprocessable", ErrorClass.invalid),
        (404, None, "No batch found with id 'batch_1'", ErrorClass.missing),
        (408, None, "", ErrorClass.transient),
        (409, None, "", ErrorClass.transient),
        (500, None, "", ErrorClass.transient),
        (503, None, "", ErrorClass.transient),
        (529, None, "", ErrorClass.transient),
    ],
)
def test_TE_09_calls_are_classified_by_our_own_table(status, code, message, expected):
    found, _, _ = classify_call(status, {"message": message, "code": code, "type": None, "param": None})
    assert found is expected


@pytest.mark.parametrize(
    ("status", "expected"), [(404, ErrorClass.transient), (502, ErrorClass.transient), (413, ErrorClass.too_large)]
)
def test_a_gateways_page_speaks_for_the_gateway(status, expected):
    page = "<html><head><title>Oops, nothing here</title></head></html>"
    error = translate(page_failure(status, page), "status of batch_1")
    assert error.error_class is expected
    assert "Oops, nothing here" in str(error)
    assert "<html>" not in str(error)


@pytest.mark.parametrize(
    ("failure", "ambiguous"),
    [
        (connection_failure(httpx2.ConnectError("refused")), False),
        (connection_failure(httpx2.ConnectTimeout("no route"), timeout=True), False),
        (connection_failure(httpx2.PoolTimeout("busy"), timeout=True), False),
        (connection_failure(httpx2.ReadTimeout("silence"), timeout=True), True),
        (connection_failure(httpx2.WriteTimeout("silence"), timeout=True), True),
        (connection_failure(httpx2.ReadError("reset")), True),
        (connection_failure(httpx2.RemoteProtocolError("hung up")), True),
        *((http_failure(status, {"error": {"message": "no"}}), True) for status in (408, 409, 425, 500, 502, 503, 529)),
        *(
            (http_failure(status, {"error": {"message": "no"}}), False)
            for status in (400, 401, 403, 404, 413, 422, 429)
        ),
        (page_failure(404, "<html>gateway</html>"), True),
        (openai.OpenAIError("no key"), False),
    ],
)
def test_SU_02_only_a_clear_refusal_of_create_is_not_ambiguous(failure, ambiguous):
    assert isinstance(create_failed(translate(failure, "create")), AmbiguousCreate) is ambiguous


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:30 GMT"}, 90.0),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "999999"}, 3600.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_SDK_06_retry_after_is_read_in_seconds_milliseconds_and_as_a_date(headers, expected):
    assert retry_after_s(httpx2.Headers(headers), NOW) == expected


@given(st.text(max_size=40))
def test_no_retry_after_header_breaks_anything(text):
    headers = httpx2.Headers([(b"retry-after", text.encode("utf-8", "replace"))])
    found = retry_after_s(headers, NOW)
    assert found is None or 0 <= found <= 3600


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("validating", "validating"), ("Validating", "validating"), ("in_progress", "in_progress"),
        ("InProgress", "in_progress"), ("in progress", "in_progress"), ("finalizing", "finalizing"),
        ("COMPLETED", "completed"), ("failed", "failed"), ("expired", "expired"), ("cancelling", "cancelling"),
        ("canceling", "cancelling"), ("cancelled", "cancelled"), ("canceled", "cancelled"),
        ("paused", "unknown"), ("", "unknown"), ("completed_with_errors", "unknown"),
    ],
)  # fmt: skip
def test_PO_05_state_words_in_any_case_and_spelling(word, phase):
    assert phase_of(word) is BatchPhase(phase)
    assert phase_of(word).ended is (phase in {"completed", "failed", "expired", "cancelled"})


def batch(**fields):
    return {"id": "batch_1", "status": "completed", "output_file_id": "file-o", "created_at": 1_790_000_000, **fields}


@pytest.mark.parametrize("status", [None, 7, ["completed"], {}])
def test_PO_05_a_status_that_is_no_word_is_unknown_and_warned_of(status):
    read = read_batch(batch(status=status))
    assert read.phase is BatchPhase.unknown
    assert read.warning
    missing = batch()
    del missing["status"]
    assert read_batch(missing).phase is BatchPhase.unknown


@pytest.mark.parametrize("counts", [None, {}, {"total": None}, "many", {"total": -1, "completed": True, "failed": 0.5}])
def test_PO_10_counts_that_are_no_numbers_are_not_told(counts):
    read = read_batch(batch(request_counts=counts, metadata=None))
    assert (read.total, read.completed, read.failed) == (-1, -1, -1)
    assert read.phase is BatchPhase.completed
    assert read.tag == ""


def test_PO_08_completed_without_the_file_that_must_be_there_is_not_final():
    counts = {"total": 10, "completed": 10, "failed": 0}
    read = read_batch(batch(output_file_id=None, request_counts=counts))
    assert (read.phase, read.settles_as) == (BatchPhase.finalizing, BatchPhase.completed)
    assert read_batch(batch(request_counts=counts)).phase is BatchPhase.completed
    no_counts = read_batch(batch(output_file_id=None))
    assert no_counts.phase is BatchPhase.finalizing
    errors_only = {"total": 9, "completed": 0, "failed": 9}
    assert read_batch(batch(output_file_id=None, error_file_id="file-e", request_counts=errors_only)).phase.ended, (
        "PF-01"
    )
    assert read_batch(batch(status="cancelled", output_file_id=None)).phase is BatchPhase.cancelled


def test_QU_01_a_failed_batch_says_why_in_our_words():
    errors = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit", "line": None}]}
    read = read_batch(batch(status="failed", output_file_id=None, errors=errors))
    assert (read.error.error_class, read.error.code) == (ErrorClass.quota, "token_limit_exceeded")
    errors = {"data": [{"code": "duplicate_custom_id", "message": "twice", "line": 7}, {"code": "invalid_json_line"}]}
    read = read_batch(batch(status="failed", output_file_id=None, errors=errors))
    assert read.error.error_class is ErrorClass.invalid
    assert read.error.message == "line 7 of the batch's input: twice (and 1 more)"
    assert (read.error.bad_lines, read.error.of_all_lines) == ([], True)
    assert read_batch(batch(status="failed", output_file_id=None, errors=None)).error.error_class is ErrorClass.unknown


@pytest.mark.parametrize("value", [None, "", "yesterday", True, -4, 10**30, [], float("nan")])
def test_times_that_are_none_are_none(value):
    assert read_time(value) is None


def test_times_as_epoch_or_iso():
    expected = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    for value in (
        expected.timestamp(),
        str(int(expected.timestamp())),
        "2026-11-29T12:00:00Z",
        "2026-11-29T14:00:00+02:00",
    ):
        assert read_time(value) == expected


def test_of_two_batches_the_furthest_counts():
    words = ["failed", "validating", "completed", "cancelling", "in_progress"]
    ranked = sorted((read_batch(batch(status=word)) for word in words), key=rank)
    assert [one.raw_state for one in ranked] == ["completed", "in_progress", "validating", "cancelling", "failed"]


def test_a_rendered_line_is_the_body_byte_for_byte():
    provider = OpenAIProvider("openai", ProviderSettings())
    body = '{"model":"m","messages":[{"role":"user","content":"a\u2028b é—日"}]}'.encode()
    line = provider.render("gabc-r0-s0-1", CHAT, body)
    assert line == b'{"custom_id":"gabc-r0-s0-1","method":"POST","url":"/v1/chat/completions","body":' + body + b"}\n"


def test_limits_are_the_dialects_unless_the_profile_says_otherwise():
    openai_limits = OpenAIProvider("openai", ProviderSettings()).limits(CHAT, "m")
    assert (openai_limits.max_requests, openai_limits.max_bytes) == (50_000, 200_000_000)
    assert OpenAIProvider("azure", ProviderSettings()).limits(CHAT, "m").max_requests == 100_000
    small = OpenAIProvider("openai", ProviderSettings(max_requests=7, max_bytes=1000)).limits(CHAT, "m")
    assert (small.max_requests, small.max_bytes, small.max_line_bytes) == (7, 1000, 1000)


def address(settings):
    return read_address("openai", settings, compatibility_of("openai", settings))


def test_a_key_is_needed_for_the_public_address_and_not_for_ones_own_server(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ProviderError, match="no API key") as failure:
        address(ProviderSettings())
    assert failure.value.error_class is ErrorClass.account
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert address(ProviderSettings()) == ("http://127.0.0.1:1/v1", "none")
    monkeypatch.setenv("WORK_KEY", "sk-work")
    profile = ProviderSettings(base_url="http://127.0.0.1:2/v1", api_key_env="WORK_KEY")
    assert address(profile) == ("http://127.0.0.1:2/v1", "sk-work")


def test_secrets_are_in_no_repr():
    settings = ActivitySettings(
        store_url="memory://",
        store_options={"secret_access_key": "hush-1"},
        providers={"openai": ProviderSettings(api_key="hush-2", extra_headers={"x": "hush-3"})},
    )
    assert "hush" not in repr(settings)


def test_profiles_are_named_after_the_provider():
    work = ProviderSettings(base_url="http://127.0.0.1:2/v1")
    settings = ActivitySettings(store_url="memory://", providers={"openai/work": work})
    assert settings.provider("openai", "work") is work
    assert settings.provider("openai", "other") is None
    assert settings.provider("openai") == ProviderSettings()


async def ids_of(pages, since, *, paged=True):
    asked = []

    async def page(after):
        asked.append(after)
        return pages(after)

    return [item["id"] async for item in listed(page, since, paged=paged)], asked


def item(name, age_s, **fields):
    return {"id": name, "created_at": int((NOW - timedelta(seconds=age_s)).timestamp()), **fields}


HOUR = 3600


async def test_a_listing_newest_first_is_cut_at_the_first_page_that_is_too_old():
    pages = {
        None: {"data": [item("a", 10), item("b", 20 * HOUR)], "has_more": True},
        "b": {"data": [item("c", 25 * HOUR), item("d", 26 * HOUR)], "has_more": True},
        "d": {"data": [item("e", 27 * HOUR)], "has_more": False},
    }
    found, asked = await ids_of(pages.get, NOW - timedelta(seconds=200))
    assert (found, asked) == (["a", "b"], [None, "b"]), "20 hours are within the clocks' tolerance"


async def test_a_listing_oldest_first_is_read_to_its_end():
    pages = {
        None: {"data": [item("a", 30 * HOUR), item("b", 29 * HOUR)], "has_more": True},
        "b": {"data": [item("c", 10)], "has_more": False},
    }
    found, _ = await ids_of(pages.get, NOW - timedelta(seconds=60))
    assert found == ["c"]


async def test_PO_10_odd_items_do_not_empty_a_listing():
    data = [None, 7, {"id": None}, {"no": "id"}, {"id": "timeless", "created_at": None}, item("b", 1)]
    found, _ = await ids_of(lambda _: {"data": data, "has_more": False}, NOW)
    assert found == ["timeless", "b"]
    assert await ids_of(lambda _: {"data": None, "has_more": True}, NOW) == ([], [None])


async def test_a_server_that_ignores_the_cursor_is_asked_twice_and_no_more():
    found, asked = await ids_of(lambda _: {"data": [item("a", 1), item("b", 2)], "has_more": True}, None)
    assert (found, asked) == (["a", "b"], [None, "b"])


@pytest.mark.parametrize(
    ("line", "outcome", "error_class"),
    [
        (
            b'{"custom_id":"w","response":{"status_code":400,"body":{"error":{"message":"bad"}}},"error":null}',
            Outcome.failed,
            ErrorClass.invalid,
        ),
        (b'{"custom_id":"w","response":null,"error":{"code":"server_error","message":"x"}}', Outcome.failed, ErrorClass.transient),
        (b'{"custom_id":"w","response":{"status_code":0,"body":{}},"error":null}', Outcome.failed, ErrorClass.unknown),
        (b'{"custom_id":"w","response":{"status_code":200,"body":{}},"error":null}', Outcome.unreadable, ErrorClass.unreadable),
        (b'{"custom_id":"w","response":{"status_code":200,', Outcome.unreadable, ErrorClass.unreadable),
        (b"[1]", Outcome.unreadable, ErrorClass.unreadable),
        (b'{"custom_id":"w","x":"\xff"}', Outcome.unreadable, ErrorClass.unreadable),
        (b'{"custom_id":"w","response":null,"error":{"code":"batch_expired","message":""}}', Outcome.expired, ErrorClass.expired),
        (b'{"custom_id":"w","response":null,"error":{"code":"batch_cancelled","message":""}}', Outcome.cancelled, ErrorClass.cancelled),
        (b'{"custom_id":"w","response":null,"error":{"code":"brand_new","message":""}}', Outcome.failed, ErrorClass.unknown),
    ],
    ids=["RP-10 http", "RP-10 error", "RP-11", "RP-12 empty", "RP-12 cut", "RP-12 array", "RP-12 utf-8", "RP-17 expired",
         "RP-17 cancelled", "RP-17 new"],
)  # fmt: skip
def test_a_line_of_each_odd_shape_is_read(line, outcome, error_class):
    answer = OpenAIProvider("openai", ProviderSettings()).read_line(line, CHAT)
    assert (answer.outcome, answer.error_class) == (outcome, error_class)


def test_remote_objects_are_data():
    assert RemoteObject("file", "f", "t") == RemoteObject("file", "f", "t", ended=True, created_at=None)
