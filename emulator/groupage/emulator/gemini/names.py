"""Names of batches and of their result files, as long as Google's are.

A batch's code has 36 characters and its results lie in `files/batch-{code}`: 42, two more than the Files API takes
when a file is to be deleted (python-genai issue 1759). So result files cannot be deleted there; nor here.
"""

import hashlib

from groupage.emulator.calls import Call
from groupage.emulator.life import Batch

PREFIX = "gemini_"
_DRAWN = 24


def code_of(batch: Batch) -> str:
    drawn = batch.id.removeprefix(PREFIX)
    return drawn + hashlib.blake2b(drawn.encode(), digest_size=6).hexdigest()


def result_id(batch: Batch) -> str:
    return f"batch-{code_of(batch)}"


def find(call: Call, code: str) -> Batch | None:
    """The caller's batch with this code."""
    batch = call.core.find_batch(call.account, PREFIX + code[:_DRAWN])
    return batch if batch is not None and code_of(batch) == code else None
