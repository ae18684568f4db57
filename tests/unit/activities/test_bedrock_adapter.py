"""Names, options, states, error classes and bodies: what needs no server."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
from botocore import exceptions, parsers
from groupage.activities.providers.base import ResultFile
from groupage.activities.providers.bedrock import BedrockProvider
from groupage.activities.providers.bedrock_bodies import invocation_type, render
from groupage.activities.providers.bedrock_errors import classify, create_failed, failed_job, translate
from groupage.activities.providers.bedrock_jobs import job_name, output_folder, read_job, tag_of_name, with_results
from groupage.activities.providers.bedrock_options import read_options
from groupage.activities.providers.bedrock_runtime import bucket_s
from groupage.activities.providers.call_errors import retry_after_s
from groupage.activities.settings import ProviderSettings
from groupage.activities.threads import detached
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError

TAG = "gabcdef-abcdefghijklm-r12-s123456"
ARN = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/abc123def456"
CLAUDE = "anthropic.claude-haiku-4-5-20251001-v1:0"


def options_of(**options):
    return read_options(ProviderSettings(options=options))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("BUCKET", "PREFIX", "ROLE_ARN", "TIMEOUT_HOURS", "MIN_REQUESTS", "BUCKET_OWNER", "KMS_KEY"):
        monkeypatch.delenv(f"GROUPAGE_BEDROCK_{name}", raising=False)


def test_options_come_from_the_profile_then_from_the_environment(monkeypatch):
    monkeypatch.setenv("GROUPAGE_BEDROCK_BUCKET", "from-environment")
    monkeypatch.setenv("GROUPAGE_BEDROCK_PREFIX", "batches")
    read = options_of(min_requests="200, amazon.nova=500, amazon.nova-lite=50", timeout_hours="168")
    assert (read.bucket, read.prefix, read.timeout_hours) == ("from-environment", "batches/", 168)
    assert (read.minimum("us.amazon.nova-lite-v1:0"), read.minimum("amazon.nova-pro-v1:0")) == (50, 500)
    assert read.minimum(CLAUDE) == 200
    assert options_of(bucket="mine").bucket == "mine"
    assert options_of().minimum(CLAUDE) is None, "the catalog's holds"


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_hours": "23"}, {"timeout_hours": "169"}, {"timeout_hours": "a day"}, {"bucket": "Not A Bucket"},
        {"prefix": "a b"}, {"role_arn": "role"}, {"min_requests": "few"}, {"min_requests": "=5"}, {"buckett": "x"},
    ],
)  # fmt: skip
def test_options_that_bedrock_would_not_take_are_refused_at_once(options):
    with pytest.raises(ProviderError) as error:
        options_of(**options)
    assert (error.value.error_class, error.value.code) == (ErrorClass.account, "configuration")


HOUR = 3600.0


@pytest.mark.parametrize(
    ("left_s", "hours"),
    [(None, 24), (-5.0, 24), (10 * HOUR, 24), (25 * HOUR - 1, 24), (25 * HOUR, 25), (47.9 * HOUR, 47), (168 * HOUR, 168), (999 * HOUR, 168)],
)  # fmt: skip
def test_a_job_may_take_until_the_deadline_within_bedrocks_bounds(left_s, hours):
    assert options_of().hours(left_s) == hours
    assert options_of(timeout_hours="72").hours(left_s) == 72, "what is set wins"
    window = ProviderSettings(completion_window="2d")
    assert read_options(window).hours(left_s) == 48
    assert read_options(replace(window, options={"timeout_hours": "30"})).hours(left_s) == 30


@pytest.mark.parametrize("text", ["23", "169", "1.5", "-30", "a day"])
def test_a_timeout_that_bedrock_would_not_take_is_refused_with_its_place(text, monkeypatch):
    with pytest.raises(ProviderError, match=f"timeout_hours '{text}': .* 24 to 168 whole hours"):
        options_of(timeout_hours=text)
    monkeypatch.setenv("GROUPAGE_BEDROCK_TIMEOUT_HOURS", text)
    with pytest.raises(ProviderError, match=f"GROUPAGE_BEDROCK_TIMEOUT_HOURS '{text}': .* 24 to 168 whole hours"):
        options_of()


@pytest.mark.parametrize("window", ["8d", "23h", "90m", "soon"])
def test_a_window_that_bedrock_would_not_take_is_refused_with_its_place(window):
    with pytest.raises(ProviderError, match=f"completion_window '{window}': .* 24 to 168 whole hours"):
        read_options(ProviderSettings(completion_window=window))


def test_a_key_that_would_not_be_used_is_refused():
    with pytest.raises(ProviderError, match="credentials"):
        read_options(ProviderSettings(api_key="secret"))


def test_limits_are_bedrocks_with_the_minimum_of_the_model():
    provider = BedrockProvider("bedrock", ProviderSettings(options={"min_requests": "100, amazon.nova=500"}))
    native = provider.limits("/invoke", CLAUDE)
    assert (native.max_requests, native.max_bytes, native.min_requests) == (50_000, 1_000_000_000, 100)
    portable = provider.limits("/v1/chat/completions", "amazon.nova-lite-v1:0")
    assert (portable.max_bytes, portable.min_requests, portable.completion_window_s) == (500_000_000, 500, 86_400)


def test_a_jobs_name_is_its_tag_and_fits_both_patterns():
    import re

    import botocore.loaders

    shapes = botocore.loaders.Loader().load_service_model("bedrock", "service-2")["shapes"]
    for name in (job_name(TAG, []), job_name(TAG, [ARN])):
        for shape in ("ModelInvocationJobName", "ModelInvocationIdempotencyToken"):
            assert re.fullmatch(shapes[shape]["pattern"], name)
            assert len(name) <= shapes[shape]["max"]
        assert tag_of_name(name) == TAG
    assert job_name(TAG, [ARN]) != job_name(TAG, [ARN, ARN + "2"])
    assert job_name(TAG, ["b", "a"]) == job_name(TAG, ["a", "b"])
    assert tag_of_name("somebody-elses") == tag_of_name(None) == tag_of_name(TAG + "-more") == ""


def job(**fields):
    return {"jobArn": ARN, "jobName": TAG, "status": "Completed", **fields}


def test_a_job_without_an_arn_is_no_job():
    with pytest.raises(ValueError, match="jobArn"):
        read_job({"message": "<html>"})


def test_times_counts_and_places_are_read_and_may_be_missing():
    at = datetime(2026, 11, 29, tzinfo=UTC)
    full = read_job(job(submitTime=at, endTime=at, totalRecordCount=10, successRecordCount=7, errorRecordCount=3))
    assert (full.created_at, full.ended_at, full.total, full.completed, full.failed) == (at, at, 10, 7, 3)
    bare = read_job(job())
    assert (bare.created_at, bare.total, bare.completed, bare.input_files) == (None, -1, -1, [])
    target = {"outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://b/p/output/"}}}
    assert output_folder(job(**target)) == "s3://b/p/output/abc123def456/"
    assert output_folder(job()) == ""


def test_PO_08_an_end_without_the_results_that_must_be_there_is_not_final():
    manifest = ["s3://b/p/manifest.json.out"]
    late = with_results(read_job(job()), manifest, (10, 10, 0))
    assert (late.phase, late.settles_as) == (BatchPhase.finalizing, BatchPhase.completed)
    stopped = with_results(read_job(job(status="Stopped", successRecordCount=0)), [], None)
    assert (stopped.phase, stopped.settles_as) == (BatchPhase.cancelled, None)
    there = with_results(read_job(job()), [*manifest, "s3://b/p/input.jsonl.out"], None)
    assert there.phase is BatchPhase.completed
    provider = BedrockProvider("bedrock", ProviderSettings())
    assert provider.result_files(there) == [
        ResultFile("output", "s3://b/p/input.jsonl.out"),
        ResultFile("manifest", "s3://b/p/manifest.json.out", lines=False),
    ]


@pytest.mark.parametrize(
    ("message", "kind", "code"),
    [
        (
            "Batch job contains less records (50) than the required minimum of: 100",
            ErrorClass.transient,
            "too_few_records",
        ),
        ("The number of records must be at least 100", ErrorClass.transient, "too_few_records"),
        ("Input validation failed: at least one record has an error", ErrorClass.invalid, "invalid"),
        ("The provided role could not be assumed", ErrorClass.account, "access"),
        ("The specified bucket is in another region than the job", ErrorClass.account, "access"),
        ("You exceeded the quota of concurrent batch jobs", ErrorClass.quota, "quota"),
        ("Access denied when reading s3://b", ErrorClass.account, "access"),
        ("The input file size exceeds the maximum of 1 GB", ErrorClass.too_large, "too_large"),
        ("An internal error occurred, try again", ErrorClass.transient, "internal"),
        ("Validation failed: record 7 is malformed", ErrorClass.invalid, "invalid"),
        ("Something new", ErrorClass.unknown, "failed"),
        ("", ErrorClass.unknown, "failed"),
    ],
)
def test_why_a_job_failed_is_read_from_its_message(message, kind, code):
    error = failed_job(message)
    assert (error.error_class, error.code) == (kind, code)
    assert error.message


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "ServiceQuotaExceededException", "", ErrorClass.quota),
        (429, "ThrottlingException", "", ErrorClass.rate_limit),
        (503, "SlowDown", "", ErrorClass.rate_limit),
        (400, "ValidationException", "bad", ErrorClass.invalid),
        (400, "ValidationException", "The file size exceeds the maximum", ErrorClass.too_large),
        (413, "", "", ErrorClass.too_large),
        (404, "NoSuchBucket", "", ErrorClass.account),
        (404, "404", "Not Found", ErrorClass.missing),
        (403, "403", "Forbidden", ErrorClass.forbidden),
        (502, "502", "Bad Gateway", ErrorClass.transient),
        (529, "529", "", ErrorClass.transient),
        (418, "teapot", "", ErrorClass.invalid),
    ],
)
def test_TE_09_the_class_is_decided_here(status, code, message, kind):
    assert classify(status, code, message) is kind


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, "InvalidToken", "The provided token is malformed or otherwise invalid."),
        (400, "ExpiredToken", "The provided token has expired."),
        (400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'"),
        (400, "IncompleteSignature", ""),
        (400, "RequestExpired", ""),
        (400, "OptInRequired", ""),
        (403, "SignatureDoesNotMatch", ""),
        (400, "KMS.DisabledException", "arn:aws:kms:… is disabled."),
        (400, "KMS.KMSInvalidStateException", ""),
        (301, "PermanentRedirect", "The bucket must be addressed using the specified endpoint."),
        (301, "301", "Moved Permanently"),
    ],
)
def test_QU_06_what_s3_and_sts_refuse_the_account_for_is_no_fault_of_requests(status, code, message):
    assert classify(status, code, message) is ErrorClass.account


@pytest.mark.parametrize(
    ("message", "kind", "code"),
    [
        (
            "Your account is not authorized to perform this action. Please create a support case",
            ErrorClass.account,
            "ValidationException",
        ),
        ("The provided role could not be assumed. Check its trust policy", ErrorClass.account, "ValidationException"),
        ("Role arn:aws:iam::1:role/x is invalid", ErrorClass.account, "ValidationException"),
        ("The role lacks s3:GetObject access to s3://b/in.jsonl", ErrorClass.account, "ValidationException"),
        ("The S3 bucket must be in the region of the job", ErrorClass.account, "ValidationException"),
        ("Batch job contains less records (50) than the minimum of 100", ErrorClass.transient, "too_few_records"),
        ("1 validation error detected: Value at 'jobName' is wrong", ErrorClass.invalid, "ValidationException"),
        ("Model x is not supported for batch inference", ErrorClass.invalid, "ValidationException"),
        ("The file size exceeds the maximum", ErrorClass.too_large, "ValidationException"),
    ],
)
def test_QU_06_a_call_about_a_whole_batch_is_refused_for_the_account_in_words_only(message, kind, code):
    response = {"Error": {"Code": "ValidationException", "Message": message}}
    refused = exceptions.ClientError(
        {**response, "ResponseMetadata": {"HTTPStatusCode": 400}}, "CreateModelInvocationJob"
    )
    error = create_failed(translate(refused, "create"))
    assert not isinstance(error, AmbiguousCreate)
    assert (error.error_class, error.code) == (kind, code)


def test_QU_06_a_bad_request_without_a_body_that_looks_for_an_object_is_the_credentials():
    response = {"Error": {"Code": "400", "Message": "Bad Request"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert translate(exceptions.ClientError(response, "HeadObject"), "look").error_class is ErrorClass.account
    assert translate(exceptions.ClientError(response, "PutObject"), "upload").error_class is ErrorClass.invalid


def test_words_of_one_request_do_not_speak_for_the_account():
    response = {"Error": {"Code": "ValidationException", "Message": "role 'robot' is not valid: use user or assistant"}}
    refused = exceptions.ClientError({**response, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Converse")
    assert translate(refused, "/converse").error_class is ErrorClass.invalid
    assert classify(400, "ValidationException", "role 'robot' is not authorized here") is ErrorClass.invalid


URL = {"endpoint_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("error", "code", "ambiguous"),
    [
        (exceptions.EndpointConnectionError(**URL), "not_connected", False),
        (exceptions.ConnectTimeoutError(**URL), "not_connected", False),
        (exceptions.ReadTimeoutError(**URL), "timeout", True),
        (exceptions.ConnectionClosedError(**URL), "connection_lost", True),
        (exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), "cut_short", True),
        (parsers.ResponseParserError("?"), "not_json", True),
        (exceptions.NoCredentialsError(), "configuration", False),
        (exceptions.NoRegionError(), "configuration", False),
        (exceptions.ParamValidationError(report="?"), "ParamValidation", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_botocore_raises_says_whether_a_create_may_have_been_accepted(error, code, ambiguous):
    ours = translate(error, "create")
    assert ours.code == code
    assert isinstance(create_failed(ours), AmbiguousCreate) == ambiguous


def test_what_is_not_botocores_is_not_translated():
    assert translate(ValueError("mine"), "x") is None
    assert retry_after_s({"retry-after": "7"}) == 7
    assert retry_after_s({"retry-after": "soon"}) is retry_after_s({}) is None


def test_a_record_holds_the_wire_id_and_the_translated_body():
    body = orjson.dumps({"model": CLAUDE, "messages": [{"role": "user", "content": "é\u2028"}], "max_tokens": 5})
    rendered = render(f"{TAG}-3", "/v1/chat/completions", body)
    record = orjson.loads(rendered)
    assert record["recordId"] == f"{TAG}-3"
    assert record["modelInput"]["anthropic_version"] == "bedrock-2023-05-31"
    assert rendered.count(b"\n") == 1
    assert render(f"{TAG}-3", "/v1/chat/completions", b"{}") == f'{{"recordId":"{TAG}-3","modelInput":{{}}}}\n'.encode()


def test_a_native_body_keeps_numbers_that_are_larger_than_64_bits():
    body = b'{"model":"%b","prompt":"x","seed":123456789012345678901234567890}' % b"meta.llama3-1-8b-instruct-v1:0"
    assert b'"seed":123456789012345678901234567890' in render("w", "/invoke", body)


def test_a_converse_record_with_tools_is_refused():
    body = orjson.dumps({"model": CLAUDE, "messages": [], "toolConfig": {}})
    with pytest.raises(ProviderError, match="toolConfig"):
        render("w", "/converse", body)
    assert render("w", "/invoke", body)


@pytest.mark.parametrize(
    ("endpoint", "model", "kind"),
    [
        ("/invoke", CLAUDE, "InvokeModel"),
        ("/converse", CLAUDE, "Converse"),
        ("/v1/chat/completions", CLAUDE, "InvokeModel"),
        ("/v1/chat/completions", "meta.llama3-1-8b-instruct-v1:0", "Converse"),
        ("/v1/embeddings", "amazon.titan-embed-text-v2:0", "InvokeModel"),
    ],
)
def test_the_invocation_type_follows_endpoint_and_family(endpoint, model, kind):
    assert invocation_type(endpoint, model) == kind
    with pytest.raises(ProviderError):
        invocation_type("/v1/responses", model)


def test_boto3_is_imported_at_first_use_only():
    code = "import sys, groupage.activities.providers.bedrock; sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_detached_call_returns_raises_and_can_be_left_behind():
    assert await detached(lambda: 7, "test") == 7
    with pytest.raises(ZeroDivisionError):
        await detached(lambda: 1 // 0, "test")
    import threading

    go_on = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await detached(lambda: go_on.wait(5), "test")
    go_on.set()
    assert [bucket_s(seconds) for seconds in (0.1, 4, 5, 60, 600)] == [4, 4, 8, 64, 1024]
