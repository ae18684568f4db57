"""For all tests: how long a drawn example may take says nothing on a machine that does other things as well."""

import os

from hypothesis import HealthCheck, settings

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# The same examples in each run, so that one without a change does not fail. Others are drawn where SEARCH is set.
settings.register_profile("same", derandomize=True, **PATIENT)
settings.register_profile("search", print_blob=True, **PATIENT)
settings.load_profile("search" if os.environ.get("SEARCH") else "same")
