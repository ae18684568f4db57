"""From settings to an open store and a connected Temporal client.

Which task queue? A worker's activities are bound to its store, so one queue must never mix two
stores. A deployment configures both its server and its store and uses `groupage`; so does a person
who configures neither (embedded server, local store). Whoever configures only one of them may share
it with others whose other half differs, and uses `groupage-{owner}`, the store's own six characters.
`GROUPAGE_TASK_QUEUE` overrides the rule.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from groupage.client.config import ClientSettings, temporal_connect_config
from groupage.client.local_server import find_local_server
from groupage.client.state_folder import make_state_folder
from groupage.schemas.errors import GroupageError, UsageError
from groupage.schemas.signals import TASK_QUEUE
from groupage.store.deployment import deployment_owner
from groupage.store.objects import Store, open_store
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

CONNECT_TIMEOUT_S = 15.0
UNREACHABLE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNKNOWN,
        RPCStatusCode.INTERNAL,
    }
)
"""What a call says that may work later. A connection that breaks is "transport error", status UNKNOWN."""
POLLERS_TIMEOUT = timedelta(seconds=5)

_THIS_MACHINE = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class Connection:
    """A connected client and what belongs to it. `ui_url` is known for the embedded server only."""

    temporal: Client
    task_queue: str
    ui_url: str | None = None


def choose_task_queue(settings: ClientSettings, owner: str, *, server_configured: bool) -> str:
    if settings.task_queue:
        return settings.task_queue
    store_configured = settings.store is not None
    return TASK_QUEUE if store_configured == server_configured else f"{TASK_QUEUE}-{owner}"


def same_here(address: str, local: str) -> bool:
    """Whether an address names the server that listens at `local`, 127.0.0.1:PORT, by whatever name of this machine."""
    host, _, port = address.rpartition(":")
    return host.strip("[]").lower() in _THIS_MACHINE and port == local.rpartition(":")[2]


async def task_queue_of(client: Client, settings: ClientSettings, store: Store) -> str:
    """The queue of this store on the server that a client of one's own is connected to: the rule above."""
    owner = await asyncio.to_thread(deployment_owner, store)
    local = find_local_server(settings.state_dir)
    embedded = local is not None and same_here(client.service_client.config.target_host, local.address)
    return choose_task_queue(settings, owner, server_configured=not embedded)


async def is_polled(client: Client, task_queue: str) -> bool | None:
    """Whether a worker listens on the queue, or did until a moment ago; None where the server does not tell."""
    try:
        described = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=task_queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            ),
            timeout=POLLERS_TIMEOUT,
        )
    except RPCError:
        return None
    return bool(described.pollers)


async def open_configured_store(settings: ClientSettings) -> Store:
    """Raises UsageError, StoreError where it cannot be opened."""
    if settings.store is None:
        await asyncio.to_thread(make_state_folder, settings.state_dir)
    return await asyncio.to_thread(open_store, settings.store_url, **settings.store_options)


def cannot_be_reached(address: str, error: Exception) -> GroupageError:
    return GroupageError(
        f"Temporal at {address} cannot be reached: {str(error) or type(error).__name__}",
        hint="is it running, and are address, namespace and TLS in TEMPORAL_* right? `groupage doctor` checks",
    )


async def connect_temporal(
    settings: ClientSettings,
    store: Store,
    *,
    address: str | None = None,
    ui_url: str | None = None,
    runtime: Runtime | None = None,
) -> Connection:
    """Connect to `address`, else the configured server, else this user's running embedded one.

    Raises UsageError where there is none, GroupageError where it does not answer.
    """
    config = temporal_connect_config() if address is None else None
    owner = await asyncio.to_thread(deployment_owner, store)
    local = find_local_server(settings.state_dir) if address is None else None
    if config is not None and local is not None and same_here(config["target_host"], local.address):
        # TEMPORAL_ADDRESS was set for the temporal CLI: it is this user's own embedded server all the same.
        config = None
    if config is None:
        if address is None:
            if local is None:
                raise UsageError(
                    "no Temporal server is configured and no embedded one is running",
                    hint="set TEMPORAL_ADDRESS or TEMPORAL_PROFILE, or start one with `groupage dev`",
                )
            address, ui_url = local.address, local.ui_url
        connecting = Client.connect(address, data_converter=pydantic_data_converter, runtime=runtime)
    else:
        address = config["target_host"]
        # The SDK means its own TypedDict to be passed like this; type checkers cannot follow `total=False`.
        options: dict[str, Any] = {**config}
        connecting = Client.connect(**options, data_converter=pydantic_data_converter, runtime=runtime)
    try:
        client = await asyncio.wait_for(connecting, CONNECT_TIMEOUT_S)
    except (RuntimeError, RPCError, TimeoutError) as error:
        raise cannot_be_reached(address, error) from error
    queue = choose_task_queue(settings, owner, server_configured=config is not None)
    return Connection(client, queue, ui_url)
