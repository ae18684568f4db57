"""What keeps batches from being looked at or harvested and passes only when a person acts: how it is shown."""

from groupage.schemas import BatchError, ErrorClass, Health
from groupage.schemas.activity_calls import DISK_FULL


def needs_a_person(error: BatchError) -> bool:
    """Whether it does not pass by itself: a refused account, a worker's full disk."""
    return error.error_class is ErrorClass.account or error.code == DISK_FULL


def trouble_health(troubled: int, running: int) -> Health:
    """`troubled` of the `running` shards cannot go on: stuck where that is all of them, for then nothing can end
    before the escalation; at risk while others do.
    """
    return Health.stuck if troubled >= running else Health.at_risk


def trouble_reason(provider: str, error: BatchError, troubled: int, running: int) -> str:
    """Why the job is not on track. `error` is what was said first."""
    shards = f"{troubled} of {running} running batches"
    if error.code == DISK_FULL:
        return f"a worker's disk is full, {shards} cannot be sent or collected: {error.message}"
    return f"{provider} refuses the account, {shards} cannot be looked at or collected: {error.message}"


def what_to_do(provider: str, profile: str, error: BatchError) -> str:
    """What a person has to do; the batches themselves go on meanwhile and nothing is lost."""
    if error.code == DISK_FULL:
        return "make room on the worker's disk (its directory `spool`), or give the worker another `state_dir`; it is tried again by itself"
    return (
        f"mend the key, permission or credit of {provider} (profile {profile}): `groupage doctor` tells whether it "
        "works; a new key needs the workers restarted, then they look again by themselves"
    )
