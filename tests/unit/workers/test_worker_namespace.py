"""Search attributes: added where they may be, asked for in words where not."""

from types import SimpleNamespace
from typing import Any

import pytest
from groupage.schemas.errors import GroupageError
from groupage.schemas.signals import SEARCH_ATTRIBUTES
from groupage.workers.namespace import register_search_attributes
from structlog.testing import capture_logs
from temporalio.service import RPCError, RPCStatusCode


class Operator:
    """An operator service that says no where it is told to."""

    def __init__(self, there: set[str], *, on_list: RPCStatusCode | None, on_add: RPCStatusCode | None) -> None:
        self.there, self.on_list, self.on_add = there, on_list, on_add
        self.added: list[str] = []

    async def list_search_attributes(self, request: Any, **_: Any) -> Any:
        if self.on_list is not None:
            raise RPCError("not for you", self.on_list, b"")
        return SimpleNamespace(custom_attributes=dict.fromkeys(self.there))

    async def add_search_attributes(self, request: Any, **_: Any) -> None:
        if self.on_add is not None:
            raise RPCError("not for you", self.on_add, b"")
        self.added += request.search_attributes


def client_of(
    there: set[str] = frozenset(),  # type: ignore[assignment]
    on_list: RPCStatusCode | None = None,
    on_add: RPCStatusCode | None = None,
) -> Any:
    return SimpleNamespace(namespace="jobs", operator_service=Operator(there, on_list=on_list, on_add=on_add))


async def test_only_missing_ones_are_added():
    client = client_of({"GroupageState", "Other"})
    await register_search_attributes(client)
    assert set(client.operator_service.added) == set(SEARCH_ATTRIBUTES) - {"GroupageState"}


async def test_none_are_added_where_all_are_there():
    client = client_of(set(SEARCH_ATTRIBUTES), on_add=RPCStatusCode.PERMISSION_DENIED)
    await register_search_attributes(client)


async def test_another_worker_that_was_first_is_no_error():
    await register_search_attributes(client_of(on_add=RPCStatusCode.ALREADY_EXISTS))


@pytest.mark.parametrize("status", [RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED])
async def test_missing_ones_that_may_not_be_added_stop_the_worker_with_the_commands_to_give(status):
    present = {"GroupageState"}
    with pytest.raises(GroupageError, match=r"namespace jobs lacks .*GroupageHealth.* may not be added") as caught:
        await register_search_attributes(client_of(present, on_add=status))
    assert "--namespace jobs --name GroupageDeadline --type Datetime" in caught.value.hint
    assert "GroupageState" not in caught.value.hint


async def test_where_it_is_not_allowed_to_look_the_worker_goes_on_and_says_so():
    with capture_logs() as logs:
        await register_search_attributes(client_of(on_list=RPCStatusCode.PERMISSION_DENIED))
    assert "--name GroupageState --type Keyword" in logs[0]["if_jobs_do_not_move"]


async def test_a_server_that_does_not_answer_is_told_as_that():
    with pytest.raises(GroupageError, match="does not list"):
        await register_search_attributes(client_of(on_list=RPCStatusCode.UNAVAILABLE))
