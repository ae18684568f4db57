"""Options, limits, states, errors and job requests of the Vertex adapter, without a network."""

import google.auth.exceptions as auth
import pytest
import requests.exceptions as web
import urllib3.exceptions
from google.api_core import exceptions as api
from google.protobuf.json_format import ParseError
from groupage.activities.providers.base import traits_of
from groupage.activities.providers.vertex import VertexProvider
from groupage.activities.providers.vertex_bodies import is_claude, model_path
from groupage.activities.providers.vertex_errors import create_failed, failed_job, translate, translated
from groupage.activities.providers.vertex_gcs import split_ref
from groupage.activities.providers.vertex_jobs import QUEUE_AND_RUN_S, phase_of, read_job, tag_of, with_results
from groupage.activities.providers.vertex_options import is_loopback, read_options
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError

TAG = "gk3v5q2-4f7xk2m5ab3cd-r0-s7"
GOOD = {"project": "my-project", "location": "europe-west4", "data": "gs://my-bucket/some/prefix"}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in (
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GROUPAGE_VERTEX_DATA",
        "GROUPAGE_VERTEX_API_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)


def options(**given):
    return read_options(ProviderSettings(options=given))


# ----- options -----


def test_options_win_over_variables(monkeypatch):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "other")
    monkeypatch.setenv("GROUPAGE_VERTEX_DATA", "gs://from-the-environment")
    assert options(project="mine").project == "mine"
    assert options().data == "gs://from-the-environment/groupage/"
    assert options(**GOOD).data == "gs://my-bucket/some/prefix/"
    assert options(data="bq://my-project.a_dataset").data == "bq://my-project.a_dataset"


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ({"location": "europe-west4"}, "https://europe-west4-aiplatform.googleapis.com"),
        ({"location": "global"}, "https://aiplatform.googleapis.com"),
        ({"location": "eu"}, "https://aiplatform.eu.rep.googleapis.com"),
        ({}, "https://aiplatform.googleapis.com"),
        ({"api_endpoint": "http://127.0.0.1:8080/"}, "http://127.0.0.1:8080"),
        ({"api_endpoint": "my-proxy:443", "location": "us"}, "https://my-proxy:443"),
    ],
)
def test_the_endpoint_is_the_locations_own_or_the_one_that_is_set(given, endpoint):
    assert options(**given).api_endpoint == endpoint


def test_a_base_url_of_the_profile_is_an_endpoint_too():
    assert read_options(ProviderSettings(base_url="http://localhost:1")).api_endpoint == "http://localhost:1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bucket": "b"}, "unknown option bucket"),
        ({"data": "s3://b/c"}, "neither gs://"),
        ({"data": "gs://"}, "neither gs://"),
        ({"data": "gs://bucket/a b"}, "letters, digits"),
        ({"data": "bq://project"}, "neither gs://"),
        ({"project": "My Project"}, "not a project's id"),
        ({"location": "Europe"}, "not a location"),
        ({"api_endpoint": "http://host/v1"}, "no path"),
        ({"api_endpoint": "http://"}, "give a host"),
    ],
)
def test_wrong_options_are_named(given, said):
    with pytest.raises(ProviderError, match=said) as error:
        options(**given)
    assert error.value.error_class is ErrorClass.account
    assert error.value.hint


def test_keys_are_not_taken():
    with pytest.raises(ProviderError, match="Application Default Credentials"):
        read_options(ProviderSettings(api_key="secret"))


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:9", True),
        ("localhost:9", True),
        ("http://[::1]:9", True),
        ("https://x.googleapis.com", False),
    ],
)
def test_a_server_on_this_machine_gets_no_credentials(url, here):
    assert is_loopback(url) is here


# ----- limits and lines -----


def provider(**given):
    return VertexProvider("vertex", ProviderSettings(options=GOOD, **given))


def test_limits_are_the_catalogs_unless_the_profile_says_otherwise():
    adapter = provider()
    native, translated_ = (
        adapter.limits(endpoint, "gemini-2.5-flash") for endpoint in ("/generateContent", "/v1/chat/completions")
    )
    assert (native.max_requests, native.max_bytes) == (200_000, 1_000_000_000)
    assert translated_.max_bytes == 500_000_000, "a translated body may be longer than the one that was counted"
    assert native.completion_window_s == QUEUE_AND_RUN_S == 96 * 3600
    assert provider(max_requests=5, max_bytes=1000).limits("/generateContent", "m").max_line_bytes == 1000


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("gemini-2.5-flash", b'{"model":"gemini-2.5-flash","contents":[{"role":"user","parts":[{"text":"x"}]}]}'),
        ("gemini-2.5-flash", b'{"model":"gemini-2.5-flash","contents":[],"labels":{"a":"b"}}'),
    ],
)
def test_a_line_is_no_longer_than_planned(model, body):
    adapter, wire = provider(), f"{TAG}-1"
    overhead = len(adapter.render(wire, "/generateContent", b"{}")) - 2 + traits_of(adapter).growth
    assert len(adapter.render(wire, "/generateContent", body)) <= len(body) + overhead


@pytest.mark.parametrize(
    ("model", "endpoint", "path"),
    [
        ("gemini-2.5-flash", "/v1/chat/completions", "publishers/google/models/gemini-2.5-flash"),
        ("claude-haiku-4-5@20251001", "/v1/chat/completions", "publishers/anthropic/models/claude-haiku-4-5@20251001"),
        ("claude-x", "/rawPredict", "publishers/anthropic/models/claude-x"),
        ("publishers/google/models/g", "/generateContent", "publishers/google/models/g"),
        ("projects/p/locations/l/models/1", "/generateContent", "projects/p/locations/l/models/1"),
    ],
)
def test_models_are_named_by_their_publisher(model, endpoint, path):
    assert model_path(model, claude=is_claude(endpoint, model)) == path


def test_what_cannot_be_said_at_vertex_is_invalid():
    with pytest.raises(ProviderError) as error:
        is_claude("/v1/embeddings", "gemini-embedding-001")
    assert error.value.error_class is ErrorClass.invalid


@pytest.mark.parametrize("ref", ["s3://b/k", "gs://", "/b/k"])
def test_refs_are_gs_uris(ref):
    with pytest.raises(ValueError, match="gs://"):
        split_ref(ref)


# ----- jobs -----


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("JOB_STATE_QUEUED", "validating"),
        ("JOB_STATE_PENDING", "validating"),
        ("JOB_STATE_RUNNING", "in_progress"),
        ("JOB_STATE_UPDATING", "in_progress"),
        ("JOB_STATE_PAUSED", "in_progress"),
        ("JOB_STATE_CANCELLING", "cancelling"),
        ("JOB_STATE_CANCELING", "cancelling"),
        ("JOB_STATE_SUCCEEDED", "completed"),
        ("JOB_STATE_PARTIALLY_SUCCEEDED", "expired"),
        ("JOB_STATE_EXPIRED", "expired"),
        ("JOB_STATE_CANCELLED", "cancelled"),
        ("JOB_STATE_CANCELED", "cancelled"),
        ("JOB_STATE_FAILED", "failed"),
        ("succeeded", "completed"),
        ("job_state_cancelled", "cancelled"),
        ("JOB_STATE_UNSPECIFIED", "unknown"),
        ("12", "unknown"),
        ("", "unknown"),
    ],
)
def test_PO_05_states_in_either_case_and_spelling(word, phase):
    assert phase_of(word) is BatchPhase(phase)
    status = read_job({"name": "n", "state": word})
    assert status.raw_state == word or not word
    assert bool(status.warning) == (phase == "unknown" or "PAUSED" in word)


def test_counts_are_numbers_in_text_and_zeros_are_left_out():
    def counts(**stats):
        status = read_job({"name": "n", "completionStats": stats})
        return status.total, status.completed, status.failed

    assert counts(successfulCount="7", failedCount="2", incompleteCount="1") == (10, 7, 2)
    assert counts(successfulCount="7") == (7, 7, 0)
    assert counts(successfulCount="7", incompleteCount="-1") == (-1, 7, 0)
    assert counts(successfulCount="-1", failedCount="-1", incompleteCount="-1") == (-1, -1, -1)
    status = read_job({"name": "n"})
    assert (status.total, status.completed, status.failed) == (-1, -1, -1)


def test_a_job_is_ours_by_its_name_or_its_label():
    assert tag_of({"displayName": TAG}) == TAG
    assert tag_of({"displayName": "renamed", "labels": {"groupage_tag": TAG}}) == TAG
    assert tag_of({"displayName": f"{TAG}x", "labels": {"groupage_tag": 7}}) == ""
    assert tag_of({}) == ""


def test_times_have_nanoseconds_and_none_is_no_time():
    status = read_job({"name": "n", "state": "JOB_STATE_FAILED", "createTime": "2026-11-29T01:02:03.123456789Z"})
    assert status.created_at.isoformat() == "2026-11-29T01:02:03.123456+00:00"
    assert status.ended_at is None
    assert read_job({"name": "n", "createTime": "soon"}).created_at is None
    assert status.error.message == "the provider gives no reason"


def test_partial_failures_are_told():
    job = {
        "name": "n",
        "state": "JOB_STATE_SUCCEEDED",
        "partialFailures": [{"code": 8, "message": "some were throttled"}],
    }
    assert "some were throttled" in read_job(job).warning


def test_what_is_no_job_is_said_so():
    for job in ({}, {"name": ""}, {"name": 7}):
        with pytest.raises(ValueError, match="no name"):
            read_job(job)


@pytest.mark.parametrize(
    ("state", "counts", "waits"),
    [
        ("JOB_STATE_SUCCEEDED", {}, True),
        ("JOB_STATE_PARTIALLY_SUCCEEDED", {}, True),
        ("JOB_STATE_EXPIRED", {}, False),
        ("JOB_STATE_EXPIRED", {"successfulCount": "3"}, True),
        ("JOB_STATE_CANCELLED", {"successfulCount": "0"}, False),
        ("JOB_STATE_CANCELLED", {"successfulCount": "3"}, True),
        ("JOB_STATE_FAILED", {}, False),
    ],
)
def test_PO_08_results_that_must_be_there_are_waited_for(state, counts, waits):
    status = with_results(read_job({"name": "n", "state": state, "completionStats": counts}), [])
    assert (status.phase is BatchPhase.finalizing) is waits
    assert with_results(read_job({"name": "n", "state": state}), ["gs://b/k"]).phase is phase_of(state)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 7, "message": "no access to the bucket"}, "account"),
        ({"code": 7, "message": "Permission 'storage.objects.get' denied (or it may not exist)"}, "account"),
        ({"code": 9, "message": "service-1@gcp-sa-aiplatform.iam does not have storage.objects.get access"}, "account"),
        ({"code": 8, "message": "the batch quota is used up"}, "quota"),
        ({"code": 3, "message": "too many rows in the file"}, "too_large"),
        ({"code": 3, "message": "row 1 is not valid JSON"}, "invalid"),
        ({"code": 5, "message": "no such model"}, "invalid"),
        ({"code": 13, "message": "internal"}, "transient"),
        (None, "unknown"),
    ],
)
def test_a_failed_job_has_the_class_of_its_error(error, kind):
    assert failed_job(error).error_class is ErrorClass(kind)


# ----- errors -----


def not_connected():
    pool = urllib3.exceptions.NewConnectionError(None, "refused")
    return web.ConnectionError(urllib3.exceptions.MaxRetryError(None, "/", pool))


@pytest.mark.parametrize(
    ("error", "kind", "code", "doubt"),
    [
        (not_connected(), "transient", "not_connected", False),
        (web.ConnectTimeout(), "transient", "not_connected", False),
        (web.SSLError("bad certificate"), "transient", "not_connected", False),
        (web.ProxyError(), "transient", "not_connected", False),
        (web.ReadTimeout(), "transient", "timeout", True),
        (web.ConnectionError(urllib3.exceptions.ProtocolError("reset")), "transient", "connection_lost", True),
        (web.ChunkedEncodingError(), "transient", "cut_short", True),
        (ParseError("<html>"), "transient", "not_json", True),
        (urllib3.exceptions.ProtocolError("reset"), "transient", "connection_lost", True),
        (auth.DefaultCredentialsError("none"), "account", "configuration", False),
        (auth.RefreshError("revoked"), "account", "configuration", False),
        (auth.RefreshError("later", retryable=True), "transient", "not_connected", False),
        (auth.TransportError("metadata"), "transient", "not_connected", False),
        (api.InvalidArgument("no"), "invalid", "http_400", False),
        (api.Forbidden("no"), "account", "http_403", False),
        (api.NotFound("no"), "missing", "http_404", False),
        (api.Conflict("taken"), "transient", "http_409", True),
        (api.TooManyRequests("slow down"), "rate_limit", "http_429", False),
        (api.TooManyRequests("quota of concurrent batch jobs"), "quota", "http_429", False),
        (api.InternalServerError("no"), "transient", "http_500", True),
        (api.ServiceUnavailable("no"), "transient", "http_503", True),
        (api.GatewayTimeout("no"), "transient", "http_504", True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_SU_02_what_google_raises_has_our_class_and_only_a_doubt_is_a_doubt(error, kind, code, doubt):
    ours = translate(error, "create")
    assert (ours.error_class, ours.code) == (ErrorClass(kind), code)
    assert bool(ours.hint) == (code == "configuration")
    assert isinstance(create_failed(ours), AmbiguousCreate) is doubt


def test_errors_that_are_not_googles_are_not_ours():
    assert translate(KeyError("x"), "create") is None
    with pytest.raises(KeyError):
        translated("create", lambda: {}["x"])
    mine = ProviderError("mine", error_class=ErrorClass.account)
    with pytest.raises(ProviderError) as error:
        translated("create", lambda: (_ for _ in ()).throw(mine))
    assert error.value is mine
