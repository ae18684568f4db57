"""What Temporal keeps of a failure: 4 KiB, in which our own line has to stand (docs/triage.md)."""

import pytest
from groupage.activities.failures import reported
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

KEPT_BYTES = 4096
"""Of a pending activity's last failure; beyond it the server says "Failure exceeds size limit." instead."""


def deep(depth: int) -> None:
    """An SDK's error, many frames down, with causes of its own."""
    if depth:
        try:
            deep(depth - 1)
        except OSError as error:
            raise OSError(f"layer {depth}: {'x' * 200}") from error
    else:
        raise OSError("connection reset")


def refuse() -> None:
    with reported():
        try:
            deep(12)
        except OSError as error:
            raise ProviderError("y" * 3000, error_class=ErrorClass.transient, code="connection_lost") from error


async def test_a_failure_with_a_long_chain_of_causes_fits_what_the_server_keeps():
    with pytest.raises(ApplicationError) as raised:
        ActivityEnvironment().run(refuse)

    failure = Failure()
    await pydantic_data_converter.encode_failure(raised.value, failure)

    assert failure.ByteSize() < KEPT_BYTES
    assert failure.message.startswith("yyy")
    assert len(failure.message) <= FAILURE_MESSAGE_MAX
    assert failure.application_failure_info.type == "provider.transient"
