"""Bedrock's own words, errors and counts."""

from bedrock_world import BUCKET, CLAUDE, LLAMA, NOVA, BedrockWorld, variables_of
from groupage.schemas import BatchPhase, ErrorClass
from record import Record, by_status, words

STATES = {
    "Submitted": BatchPhase.validating,
    "Validating": BatchPhase.validating,
    "Scheduled": BatchPhase.validating,
    "InProgress": BatchPhase.in_progress,
    "Stopping": BatchPhase.cancelling,
    "Completed": BatchPhase.completed,
    "PartiallyCompleted": BatchPhase.expired,
    "Expired": BatchPhase.expired,
    "Stopped": BatchPhase.cancelled,
    "Failed": BatchPhase.failed,
}
MANIFEST = (10, 10, 0)
"""What a job does not count, its manifest does."""

BEDROCK = Record(
    label="bedrock",
    world=BedrockWorld,
    variables=variables_of,
    emulator=("--min-records", "5"),
    store="s3",
    page="groupage.activities.providers.bedrock.PAGE",
    unplugged=dict.fromkeys(("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"), "http://127.0.0.1:9"),
    models=(CLAUDE, NOVA, LLAMA),
    sync_models=(CLAUDE, NOVA, LLAMA, "openai.gpt-oss-20b-1:0", "us." + CLAUDE),
    tool_models=(CLAUDE, NOVA, "openai.gpt-oss-20b-1:0"),
    apis=(CLAUDE, LLAMA),
    gone=(
        f"s3://{BUCKET}/groupage/nothing/here",
        "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/000000000000",
    ),
    completed="Completed",
    cancelling="Stopping",
    cancelled="Stopped",
    states=words(STATES, ["COMPLETED", "Paused", None]),
    refusals=[
        ({"status": 400, "code": "ServiceQuotaExceededException"}, ErrorClass.quota),
        ({"status": 429, "code": "ThrottlingException"}, ErrorClass.rate_limit),
        ({"status": 403, "code": "AccessDeniedException"}, ErrorClass.account),
        ({"status": 403, "code": "ExpiredTokenException"}, ErrorClass.account),
        ({"status": 400, "code": "ValidationException"}, ErrorClass.invalid),
        ({"status": 500, "code": "InternalServerException"}, ErrorClass.transient),
        ({"status": 503, "code": "ServiceUnavailableException"}, ErrorClass.transient),
        ({"status": 404, "code": "ResourceNotFoundException"}, ErrorClass.transient),
    ],
    quota={"status": 400, "code": "ServiceQuotaExceededException"},
    counts=[("null", MANIFEST), ("zero", MANIFEST)],
    failures=[({"message": "The role could not be assumed: access denied."}, ErrorClass.account, None)],
    top_error="invalid/http_400",
    mismatch="the job counts 10 succeeded and 0 failed, its manifest 0 and 10",
    partial=([],),
    damaged=[("claude", CLAUDE, [], 2)],
    listed=(False, 3),
    sync_errors=[
        *by_status({400: ErrorClass.invalid, 403: ErrorClass.forbidden, 404: ErrorClass.invalid}),
        *by_status(dict.fromkeys((408, 424, 500, 503), ErrorClass.transient)),
        ({"kind": "http", "status": 400, "code": "ServiceQuotaExceededException"}, ErrorClass.quota),
        ({"kind": "http", "status": 429, "code": "ModelNotReadyException"}, ErrorClass.transient),
    ],
    lost_replies=[],
)
