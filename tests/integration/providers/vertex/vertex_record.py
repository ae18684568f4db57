"""Vertex's own words, errors and counts, with its data in Cloud Storage."""

from groupage.schemas import BatchPhase, ErrorClass
from record import Record, by_status
from vertex_world import CLAUDE, GEMINI, LOCATION, VertexWorld, variables_of

STATES = {
    "QUEUED": BatchPhase.validating,
    "PENDING": BatchPhase.validating,
    "RUNNING": BatchPhase.in_progress,
    "SUCCEEDED": BatchPhase.completed,
    "FAILED": BatchPhase.failed,
    "CANCELLING": BatchPhase.cancelling,
    "CANCELLED": BatchPhase.cancelled,
    "PAUSED": BatchPhase.in_progress,
    "EXPIRED": BatchPhase.expired,
    "UPDATING": BatchPhase.in_progress,
    "PARTIALLY_SUCCEEDED": BatchPhase.expired,
}
NOTHING = "JOB_STATE_UNSPECIFIED"
LABELLED, UNLABELLED = ({"effect": "unlabelled", "at": at} for at in (0, 1))

VERTEX = Record(
    label="vertex",
    world=VertexWorld,
    variables=variables_of,
    cleared=("BIGQUERY_EMULATOR_HOST",),
    store="gcs",
    page="groupage.activities.providers.vertex.PAGE",
    unplugged={"GROUPAGE_VERTEX_API_ENDPOINT": "http://127.0.0.1:9"},
    models=(GEMINI, CLAUDE),
    sync_models=(GEMINI, CLAUDE, f"publishers/google/models/{GEMINI}"),
    tool_models=(GEMINI, CLAUDE),
    apis=(GEMINI,),
    gone=("gs://groupage/groupage/nothing/here", f"projects/1/locations/{LOCATION}/batchPredictionJobs/1"),
    completed="JOB_STATE_SUCCEEDED",
    cancelling="JOB_STATE_CANCELLING",
    cancelled="JOB_STATE_CANCELLED",
    states=[
        *((f"JOB_STATE_{word}", f"JOB_STATE_{word}", phase, word == "PAUSED") for word, phase in STATES.items()),
        # PO-05: a number that this SDK does not know is kept; of a word that it does not know it tells nothing.
        ("42", "42", BatchPhase.unknown, True),
        *((word, NOTHING, BatchPhase.unknown, True) for word in (NOTHING, "JOB_STATE_HIBERNATING", None)),
    ],
    refusals=[
        ({"status": 429, "message": "Quota exceeded for concurrent batch prediction jobs"}, ErrorClass.quota),
        ({"status": 429, "message": "Too many requests a minute"}, ErrorClass.rate_limit),
        ({"status": 401}, ErrorClass.account),
        ({"status": 403, "message": "Permission aiplatform.batchPredictionJobs.create denied"}, ErrorClass.account),
        (
            {"status": 403, "message": "Permission 'x.create' denied on resource '//x/y' (or it may not exist)."},
            ErrorClass.account,
        ),
        ({"status": 400, "message": "Billing account for project is not found"}, ErrorClass.account),
        ({"status": 400}, ErrorClass.invalid),
        ({"status": 500}, ErrorClass.transient),
        ({"status": 503}, ErrorClass.transient),
        ({"status": 404}, ErrorClass.transient),
    ],
    quota={"status": 429, "message": "quota of concurrent batch jobs"},
    counts=[("null", (-1, -1, -1)), ("zero", (0, 0, 0)), ("unknown", (-1, -1, -1))],
    failures=[
        (
            {"code": "PERMISSION_DENIED", "message": "The service account has no permission to read the bucket."},
            ErrorClass.account,
            "PERMISSION_DENIED",
        )
    ],
    top_error="invalid/INVALID_ARGUMENT",
    mismatch="counts 10 completed and 0 failed, its lines say 0 and 10",
    # Rows with nothing but the request say that it did not run.
    partial=([LABELLED, {"effect": "request_only"}], [UNLABELLED, {"effect": "request_only"}]),
    damaged=[
        ("gemini", GEMINI, [LABELLED], 2),
        ("gemini-unlabelled", GEMINI, [UNLABELLED], 3),
        ("claude", CLAUDE, [LABELLED], 2),
        ("claude-unlabelled", CLAUDE, [UNLABELLED], 2),
    ],
    listed=(False, 2),
    sync_errors=[
        *by_status({400: ErrorClass.invalid, 404: ErrorClass.invalid}),
        *by_status({401: ErrorClass.account, 403: ErrorClass.forbidden}),
        *by_status(dict.fromkeys((499, 500, 503), ErrorClass.transient)),
    ],
    lost_replies=[({"action": "cut"}, "cut_short")],
)
