"""What Groupage needs of a Temporal namespace: its search attributes, and time to keep ended jobs."""

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


async def missing_search_attributes(client: Client) -> list[str]:
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return [name for name in SEARCH_ATTRIBUTES if name not in listed.custom_attributes]


async def register_search_attributes(client: Client) -> None:
    """Add the missing ones. A workflow that sets one that is not there does not get on."""
    try:
        missing = await missing_search_attributes(client)
        if not missing:
            return
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes={name: _TYPES[SEARCH_ATTRIBUTES[name]] for name in missing},
            )
        )
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return
        if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            # Temporal Cloud keeps these calls to operators; the attributes may well be there.
            log.warning("search_attributes_not_checked", reason=error.message, needed=list(SEARCH_ATTRIBUTES))
            return
        raise GroupageError(
            f"cannot register search attributes in namespace {client.namespace}: {error.message}",
            hint=" ".join(f"--name {name} --type {kind}" for name, kind in SEARCH_ATTRIBUTES.items()),
        ) from error
    log.info("search_attributes_registered", names=missing)


async def keep_ended_workflows(client: Client, retention: timedelta) -> None:
    """Raise the namespace's retention to `retention` if it is shorter. For the embedded server only."""
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
