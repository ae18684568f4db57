"""The list of activities that a worker registers."""

from collections.abc import Callable
from typing import Any

from groupage.activities.batch import batch_activities
from groupage.activities.data import data_activities
from groupage.activities.registry import Context


def build_activities(context: Context) -> list[Callable[..., Any]]:
    """All activities of Groupage, bound to one context, which the caller closes at shutdown."""
    return [*data_activities(context), *batch_activities(context)]
