"""OpenAI's own words, errors and counts."""

from groupage.schemas import BatchPhase, ErrorClass
from openai_world import OpenAIWorld
from record import Record, by_status, words

STATES = {
    "validating": BatchPhase.validating,
    "in_progress": BatchPhase.in_progress,
    "finalizing": BatchPhase.finalizing,
    "completed": BatchPhase.completed,
    "failed": BatchPhase.failed,
    "expired": BatchPhase.expired,
    "cancelling": BatchPhase.cancelling,
    "cancelled": BatchPhase.cancelled,
    "Canceled": BatchPhase.cancelled,
}
MODEL = OpenAIWorld.model

OPENAI = Record(
    label="openai",
    world=OpenAIWorld,
    variables=lambda base_url: {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "test"},
    page="groupage.activities.providers.openai.PAGE",
    unplugged={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
    models=(MODEL,),
    sync_models=(MODEL,),
    tool_models=(MODEL,),
    apis=(MODEL,),
    gone=("file-nobody", "batch_nobody"),
    completed="completed",
    cancelling="cancelling",
    cancelled="cancelled",
    states=words(STATES, ["paused", "COMPLETELY_NEW", None]),
    refusals=[
        *(
            ({"status": status}, found)
            for status, found in {
                400: ErrorClass.invalid,
                401: ErrorClass.account,
                403: ErrorClass.account,
                413: ErrorClass.too_large,
            }.items()
        ),
        ({"status": 429, "retry_after": 50}, ErrorClass.rate_limit),
    ],
    quota={"status": 400, "code": "token_limit_exceeded"},
    counts=[("null", (-1, -1, -1)), ("zero", (0, 0, 0))],
    failures=[
        ({"code": "token_limit_exceeded", "message": "Enqueued token limit"}, ErrorClass.quota, "token_limit_exceeded")
    ],
    top_error="invalid/invalid_value",
    # Without an output file such a batch is waited for.
    mismatch="",
    partial=([],),
    damaged=[("mini", MODEL, [], 2)],
    listed=(True, 2),
    sync_errors=by_status(
        {
            400: ErrorClass.invalid,
            401: ErrorClass.account,
            403: ErrorClass.forbidden,
            503: ErrorClass.transient,
            529: ErrorClass.transient,
        }
    ),
    lost_replies=[({"action": "cut"}, "connection_lost")],
)
