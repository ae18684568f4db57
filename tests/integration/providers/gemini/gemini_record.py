"""The Gemini API's own words, errors and counts."""

from gemini_world import CLEARED, FLASH, GeminiWorld, variables_of
from groupage.schemas import BatchPhase, ErrorClass
from record import Record, by_status, words

STATES = {
    "PENDING": BatchPhase.validating,
    "QUEUED": BatchPhase.validating,
    "RUNNING": BatchPhase.in_progress,
    "UPDATING": BatchPhase.in_progress,
    "PAUSED": BatchPhase.in_progress,
    "CANCELLING": BatchPhase.cancelling,
    "CANCELING": BatchPhase.cancelling,
    "SUCCEEDED": BatchPhase.completed,
    "PARTIALLY_SUCCEEDED": BatchPhase.completed,
    "FAILED": BatchPhase.failed,
    "CANCELLED": BatchPhase.cancelled,
    "CANCELED": BatchPhase.cancelled,
    "EXPIRED": BatchPhase.expired,
}
PREFIXES = ("BATCH_STATE", "JOB_STATE")

GEMINI = Record(
    label="gemini",
    world=GeminiWorld,
    variables=variables_of,
    cleared=CLEARED,
    emulator=("--api-key", "test"),
    page="groupage.activities.providers.gemini.PAGE",
    unplugged={"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"},
    models=(FLASH,),
    sync_models=(FLASH,),
    tool_models=(FLASH,),
    apis=(FLASH,),
    gone=("files/nothing", "batches/nothing"),
    completed="BATCH_STATE_SUCCEEDED",
    # One that is being cancelled says that it runs.
    cancelling=None,
    cancelled="BATCH_STATE_CANCELLED",
    states=[
        *words(
            {f"{prefix}_{word}": phase for word, phase in STATES.items() for prefix in PREFIXES},
            [f"{prefix}_{word}" for word in ("UNSPECIFIED", "HIBERNATING") for prefix in PREFIXES],
        ),
        ("batch_state_succeeded", "batch_state_succeeded", BatchPhase.completed, False),
        ("succeeded", "succeeded", BatchPhase.completed, False),
        # Without a word the operation's own end decides.
        ("", "", BatchPhase.completed, False),
        (None, "", BatchPhase.completed, False),
    ],
    refusals=[
        ({"status": 400}, ErrorClass.invalid),
        ({"status": 400, "message": "API key not valid. Please pass a valid API key."}, ErrorClass.account),
        ({"status": 400, "code": "FAILED_PRECONDITION", "message": "Please enable billing"}, ErrorClass.account),
        ({"status": 403}, ErrorClass.account),
        ({"status": 400, "message": "Request payload size exceeds the limit"}, ErrorClass.too_large),
        ({"status": 429, "retry_after": 3}, ErrorClass.rate_limit),
        ({"status": 429, "message": "Quota exceeded: enqueued batch tokens"}, ErrorClass.quota),
    ],
    quota={"status": 429, "message": "Quota exceeded: enqueued batch tokens"},
    counts=[("null", (-1, -1, -1)), ("zero", (-1, -1, -1))],
    failures=[
        ({"code": "INTERNAL", "message": "An internal error has occurred."}, ErrorClass.transient, "INTERNAL"),
        ({"code": "INVALID_ARGUMENT", "message": "Line 3 is not valid."}, ErrorClass.invalid, "INVALID_ARGUMENT"),
        ({"code": "RESOURCE_EXHAUSTED", "message": "It is exhausted."}, ErrorClass.quota, "RESOURCE_EXHAUSTED"),
        ({"code": "PERMISSION_DENIED", "message": "No access."}, ErrorClass.account, "PERMISSION_DENIED"),
    ],
    top_error="invalid/INVALID_ARGUMENT",
    mismatch="counts 10 completed and 0 failed, its lines say 0 and 10",
    partial=(),
    damaged=[("flash", FLASH, [], 2)],
    listed=(True, 1),
    sync_errors=[
        *by_status({400: ErrorClass.invalid, 403: ErrorClass.forbidden, 404: ErrorClass.invalid}),
        *by_status(dict.fromkeys((500, 503, 504), ErrorClass.transient)),
        ({"kind": "http", "status": 400, "message": "API key not valid."}, ErrorClass.account),
    ],
    lost_replies=[({"action": "cut"}, "connection_lost")],
)
