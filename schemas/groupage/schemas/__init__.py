"""The contract of Groupage: messages, names, states, limits. Imports nothing of ours."""

from groupage.schemas._base import LONGEST, TOO_LONG, Duration, Message, parse_duration, read_duration
from groupage.schemas.batches import BadLines, BatchError, BatchStatus, RoundPlan, ShardPlan, ShardRef, ShardReport
from groupage.schemas.jobs import CancelInput, DecideInput, JobPolicy, JobRef, JobSpec, JobStatus
from groupage.schemas.limits import ProviderLimits
from groupage.schemas.requests import (
    DEFAULT_ENDPOINT,
    ENDPOINTS,
    NATIVE_ENDPOINTS,
    JobManifest,
    Rejected,
    Request,
    RequestGroup,
    SegmentInfo,
    endpoints_of,
)
from groupage.schemas.results import Result, ResultError, Summary, Usage
from groupage.schemas.states import (
    BatchPhase,
    Decision,
    ErrorClass,
    FailureAction,
    Health,
    JobState,
    Outcome,
    Route,
    final_job_state,
)

__all__ = [
    "DEFAULT_ENDPOINT",
    "ENDPOINTS",
    "LONGEST",
    "NATIVE_ENDPOINTS",
    "TOO_LONG",
    "BadLines",
    "BatchError",
    "BatchPhase",
    "BatchStatus",
    "CancelInput",
    "DecideInput",
    "Decision",
    "Duration",
    "ErrorClass",
    "FailureAction",
    "Health",
    "JobManifest",
    "JobPolicy",
    "JobRef",
    "JobSpec",
    "JobState",
    "JobStatus",
    "Message",
    "Outcome",
    "ProviderLimits",
    "Rejected",
    "Request",
    "RequestGroup",
    "Result",
    "ResultError",
    "RoundPlan",
    "Route",
    "SegmentInfo",
    "ShardPlan",
    "ShardRef",
    "ShardReport",
    "Summary",
    "Usage",
    "endpoints_of",
    "final_job_state",
    "parse_duration",
    "read_duration",
]
