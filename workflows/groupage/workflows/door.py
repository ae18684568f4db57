"""Where a workflow's argument comes in: what a person has misspelt ends it at once, for good."""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

PATCH = "refuse-unknown-fields"
"""A marker in the histories of workflows that are refused, and of no others."""


def refuse_unknown(problems: str) -> None:
    """Raises ApplicationError with the problems, if there are some.

    Workflows that began before fields were looked at go on as they began.
    """
    if problems and workflow.patched(PATCH):
        raise ApplicationError(problems, type="input.refused", non_retryable=True)
