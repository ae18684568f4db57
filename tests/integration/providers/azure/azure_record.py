"""Azure's own words, errors and counts."""

from azure_world import CLEARED, DEPLOYMENT, AzureWorld, variables_of
from groupage.schemas import BatchPhase, ErrorClass
from record import Record, by_status, words

STATES = {
    "validating": BatchPhase.validating,
    "Validating": BatchPhase.validating,
    "in_progress": BatchPhase.in_progress,
    "InProgress": BatchPhase.in_progress,
    "finalizing": BatchPhase.finalizing,
    "Finalizing": BatchPhase.finalizing,
    "completed": BatchPhase.completed,
    "Completed": BatchPhase.completed,
    "failed": BatchPhase.failed,
    "Failed": BatchPhase.failed,
    "expired": BatchPhase.expired,
    "cancelling": BatchPhase.cancelling,
    "Canceling": BatchPhase.cancelling,
    "cancelled": BatchPhase.cancelled,
    "canceled": BatchPhase.cancelled,
    "Canceled": BatchPhase.cancelled,
}
"""In every spelling that the samples have."""

VALIDATION = {
    "invalid_json_line": ErrorClass.invalid,
    "too_many_tasks": ErrorClass.too_large,
    "url_mismatch": ErrorClass.invalid,
    "model_not_found": ErrorClass.account,
    "duplicate_custom_id": ErrorClass.invalid,
    "empty_file": ErrorClass.invalid,
    "model_mismatch": ErrorClass.invalid,
    "invalid_request": ErrorClass.invalid,
    "input_modified": ErrorClass.transient,
    "input_no_permissions": ErrorClass.account,
    "token_limit_exceeded": ErrorClass.quota,
}

AZURE = Record(
    label="azure",
    world=AzureWorld,
    variables=variables_of,
    cleared=CLEARED,
    emulator=("--file-processing", "50ms", "--api-key", "right", "--batch-deployments", "batch-only"),
    priced=False,
    page="groupage.activities.providers.openai.PAGE",
    unplugged={"AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9"},
    models=(DEPLOYMENT,),
    sync_models=(DEPLOYMENT,),
    tool_models=(DEPLOYMENT,),
    apis=(DEPLOYMENT,),
    gone=("file-nobody", "batch_nobody"),
    completed="completed",
    cancelling="cancelling",
    cancelled="cancelled",
    states=words(STATES, ["Paused", "", None]),
    refusals=[
        ({"status": 429, "code": "429"}, ErrorClass.rate_limit),
        ({"status": 400, "code": "token_limit_exceeded"}, ErrorClass.quota),
        ({"status": 400, "code": "quotaExceeded"}, ErrorClass.quota),
        ({"status": 401, "code": "401"}, ErrorClass.account),
        ({"status": 403, "code": "403"}, ErrorClass.account),
        ({"status": 400, "code": "model_not_found"}, ErrorClass.account),
        ({"status": 400, "code": "invalidPayload"}, ErrorClass.invalid),
        ({"status": 404, "code": "fileNotFound"}, ErrorClass.transient),
    ],
    quota={"status": 400, "code": "token_limit_exceeded"},
    counts=[],
    failures=[({"code": code, "message": "see the documentation"}, found, code) for code, found in VALIDATION.items()],
    top_error="invalid/invalid_value",
    # Without an output file such a batch is waited for.
    mismatch="",
    partial=([],),
    damaged=[("deployment", DEPLOYMENT, [], 2)],
    listed=(True, 3),
    sync_errors=by_status({400: ErrorClass.invalid, 403: ErrorClass.forbidden}),
    lost_replies=[],
)
