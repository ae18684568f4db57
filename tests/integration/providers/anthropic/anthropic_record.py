"""Anthropic's own words, errors and counts: batches show nothing of ours, and their input travels with the call."""

from anthropic_world import MODEL, AnthropicJobs, variables_of
from groupage.schemas import ErrorClass
from record import Record, by_status

ANTHROPIC = Record(
    label="anthropic",
    world=AnthropicJobs,
    variables=variables_of,
    tagged=False,
    uploads=False,
    page="groupage.activities.providers.anthropic.PAGE",
    unplugged={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
    models=(MODEL,),
    sync_models=(MODEL,),
    tool_models=(MODEL,),
    apis=(MODEL,),
    gone=("msgbatch_nobody", "msgbatch_nobody"),
    completed="ended",
    cancelling="canceling",
    cancelled="ended",
    # It has one word for all ends; test_anthropic_batches.py tries one that nobody knows.
    states=[],
    refusals=[
        ({"status": 429, "retry_after": 5}, ErrorClass.rate_limit),
        ({"status": 429, "code": "enforced_spend_limit_reached"}, ErrorClass.account),
        ({"status": 429, "code": "ramp_limit_exceeded"}, ErrorClass.rate_limit),
        ({"status": 402}, ErrorClass.account),
        ({"status": 401}, ErrorClass.account),
        ({"status": 403}, ErrorClass.account),
        ({"status": 413}, ErrorClass.too_large),
        ({"status": 400}, ErrorClass.invalid),
    ],
    quota={},
    counts=[("null", (-1, -1, -1)), ("zero", (-1, -1, -1))],
    failures=[],
    top_error="invalid/invalid_request_error",
    mismatch="counts 10 completed and 0 failed, its lines say 0 and 10",
    partial=([],),
    damaged=[("claude", MODEL, [], 2)],
    listed=(False, 0),
    sync_errors=by_status({400: ErrorClass.invalid, 403: ErrorClass.forbidden}),
    lost_replies=[],
)
