"""For all tests: what a test may take of time on a machine that is slow and does other things as well."""

import os
import signal

import pytest
import pytest_timeout
from hypothesis import HealthCheck, settings

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# The same examples in each run, so that one without a change does not fail. Others are drawn where SEARCH is set.
settings.register_profile("same", derandomize=True, **PATIENT)
settings.register_profile("search", print_blob=True, **PATIENT)
settings.load_profile("search" if os.environ.get("SEARCH") else "same")

TEARDOWN_S, AGAIN_S = 120.0, 30.0
"""Until a teardown is given up, and until each of those that are still to come."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A failure stops the clock of its test: a teardown that hangs because of what failed would have no end."""
    item.config.hook.pytest_timeout_set_timer(item=item, settings=pytest_timeout._get_item_settings(item))
    signal.setitimer(signal.ITIMER_REAL, TEARDOWN_S, AGAIN_S)
