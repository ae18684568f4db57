"""What Groupage needs of a Temporal namespace: its search attributes, and time to keep ended jobs."""

from collections.abc import Iterable
from datetime import timedelta

import structlog
from google.protobuf.duration_pb2 import Duration as ProtoDuration
from groupage.schemas.errors import GroupageError
from groupage.schemas.signals import SEARCH_ATTRIBUTES
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

log = structlog.get_logger(__name__)

EMBEDDED_RETENTION = timedelta(days=30)
"""The dev server forgets ended workflows after a day; summary.json stays the truth after either."""

_TYPES = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
}


_NOT_ALLOWED = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED})
"""Temporal Cloud keeps calls of the operator service to people."""


async def missing_search_attributes(client: Client) -> list[str]:
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), retry=True
    )
    return [name for name in SEARCH_ATTRIBUTES if name not in listed.custom_attributes]


async def register_search_attributes(client: Client) -> None:
    """Add the missing ones: a job that sets one that is not there is tried again for ever.

    Raises GroupageError where some are known to be missing and cannot be added. Where it is not allowed to
    look, they may well be there.
    """
    try:
        missing = await missing_search_attributes(client)
    except RPCError as error:
        if error.status in _NOT_ALLOWED:
            by_hand = _commands(client, SEARCH_ATTRIBUTES)
            log.warning("search_attributes_not_checked", reason=error.message, if_jobs_do_not_move=by_hand)
            return
        raise GroupageError(f"Temporal does not list its search attributes: {error.message}") from error
    if not missing:
        return
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes={name: _TYPES[SEARCH_ATTRIBUTES[name]] for name in missing},
            ),
            retry=True,
        )
    except RPCError as error:
        # Another worker was first.
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return
        why = "may not be added by this account" if error.status in _NOT_ALLOWED else "cannot be added"
        raise GroupageError(
            f"namespace {client.namespace} lacks the search attributes {', '.join(missing)}, and they {why}: "
            f"{error.message}",
            hint=f"have them added once: {_commands(client, missing)}",
        ) from error
    log.info("search_attributes_registered", names=missing)


def _commands(client: Client, names: Iterable[str]) -> str:
    """For people with the permission."""
    create = f"temporal operator search-attribute create --namespace {client.namespace}"
    return "; ".join(f"{create} --name {name} --type {SEARCH_ATTRIBUTES[name]}" for name in names)


async def keep_ended_workflows(client: Client, retention: timedelta) -> None:
    """Raise the namespace's retention to `retention` if it is shorter. For the embedded server only.

    Raises RPCError where the server does not answer: who keeps it up knows better than to try again here.
    """
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    seconds = int(retention.total_seconds())
    if described.config.workflow_execution_retention_ttl.seconds >= seconds:
        return
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=client.namespace,
            config=NamespaceConfig(workflow_execution_retention_ttl=ProtoDuration(seconds=seconds)),
        )
    )
