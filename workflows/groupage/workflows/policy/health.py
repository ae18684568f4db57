"""One word on how a job does, and why."""

from groupage.schemas import Health
from groupage.workflows.policy.escalation import Clock, Evidence, Work
from groupage.workflows.policy.estimate import finish_probability

LIKELY = 0.5
STUCK_SHARE = 0.25
"""Counts that have not moved for a quarter of the span, after the batches had begun to complete requests."""


def job_health(
    clock: Clock,
    work: Work,
    evidence: Evidence,
    *,
    escalate_at_s: float,
    enough: bool,
    unmoved_s: float,
    typical_s: float,
) -> tuple[Health, str]:
    """Health and the reason for it; on_track has none.

    `unmoved_s` is how long the completed count has stood still, 0 if that is not known.
    """
    if work.remainder <= 0:
        return Health.on_track, ""
    if 0.0 < evidence.completed_share < 1.0 and unmoved_s >= STUCK_SHARE * clock.span_s:
        return Health.stuck, f"the provider's counts have not moved for {unmoved_s / 60:.0f} min"
    if not enough:
        reason = (
            f"sync could not take all of the {work.remainder} unanswered requests by the deadline: "
            "it depends on the batches (raise sync_rpm, or allow more time)"
        )
        return Health.at_risk, reason
    chance = finish_probability(
        evidence.turnarounds,
        elapsed_s=evidence.elapsed_s,
        within_s=escalate_at_s - clock.now_s,
        completed_share=evidence.completed_share,
        typical_s=typical_s,
    )
    if chance < LIKELY:
        return Health.at_risk, f"the batches end in time with a chance of {chance:.0%}; the rest would go by sync"
    return Health.on_track, ""
