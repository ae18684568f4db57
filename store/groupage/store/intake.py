"""Intake: raw input to an accepted job.

`spool_requests` reads and validates an input onto the local disk; `accept_job` puts it into the store.
"""

from groupage.store.acceptance import accept_job, default_key, missing_objects
from groupage.store.spool import Source, spool_requests
from groupage.store.spooled import SpooledInput

__all__ = ["Source", "SpooledInput", "accept_job", "default_key", "missing_objects", "spool_requests"]
