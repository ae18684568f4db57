"""What application code uses.

client = await Groupage.connect()
job = await client.submit("in.jsonl", key="labels-1", provider="openai", deadline=timedelta(hours=6))
async for result in job.results():
    ...
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from groupage.client.config import ClientSettings, load_settings
from groupage.client.connection import Connection, connect_temporal, open_configured_store, task_queue_of
from groupage.client.job import Job
from groupage.client.providers import check_known
from groupage.client.submission import Requests, accept, check_terms, job_name, spooled_input, start_job
from groupage.schemas import DEFAULT_ENDPOINT, JobPolicy
from groupage.schemas.errors import GroupageError, UnknownJob
from groupage.store.objects import Store
from groupage.store.segments import read_manifest_or_none
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode


class Groupage:
    """A client: an open store and a connected Temporal client. Runs no worker."""

    def __init__(self, connection: Connection, store: Store) -> None:
        self.connection = connection
        self.store = store

    @classmethod
    async def connect(
        cls,
        *,
        settings: ClientSettings | None = None,
        temporal: Client | None = None,
        store: str | None = None,
        task_queue: str | None = None,
    ) -> Self:
        """Connect by GROUPAGE_* and TEMPORAL_* settings, or with a client of your own.

        A client of your own needs `temporalio.contrib.pydantic.pydantic_data_converter`. Without a
        configured server this user's running embedded one is used (`groupage dev`).
        """
        used = settings or load_settings(ClientSettings, store=store, task_queue=task_queue)
        opened = await open_configured_store(used)
        if temporal is None:
            return cls(await connect_temporal(used, opened), opened)
        return cls(Connection(temporal, await task_queue_of(temporal, used, opened)), opened)

    async def submit(
        self,
        requests: Requests,
        *,
        key: str | None = None,
        tenant: str = "default",
        provider: str = "openai",
        profile: str = "default",
        model: str | None = None,
        endpoint: str = DEFAULT_ENDPOINT,
        deadline: timedelta | str = timedelta(hours=24),
        labels: Mapping[str, str] | None = None,
        policy: JobPolicy | Mapping[str, Any] | None = None,
    ) -> Job:
        """Hand in a job. It is durable when this returns.

        The same key with the same content is the same job, also long after it has ended; with other
        content it raises KeyConflict. Without a key the content's fingerprint is the key. Raises
        InputRefused where lines cannot be sent, unless the policy's on_invalid is "skip", and UsageError
        for whatever else cannot be meant.
        """
        # Whatever can be wrong is found before the key is taken.
        terms = check_terms(
            key=key,
            tenant=tenant,
            provider=provider,
            profile=profile,
            endpoint=endpoint,
            deadline=deadline,
            labels=labels,
            policy=policy,
        )
        await asyncio.to_thread(check_known, self.store, provider)
        async with spooled_input(
            requests, provider=provider, model=model, endpoint=endpoint, on_invalid=terms.policy.on_invalid
        ) as spooled:
            manifest = await accept(self.store, spooled, tenant=tenant, key=key)
        await start_job(
            self.connection,
            self.store,
            manifest,
            deadline=terms.deadline,
            profile=profile,
            model=model,
            endpoint=endpoint,
            labels=terms.labels,
            policy=terms.policy,
        )
        return Job(self.connection, self.store, manifest.tenant, manifest.key)

    async def attach(self, key: str, tenant: str = "default") -> Job:
        """The job of that name, running or ended. Raises UnknownJob, UsageError for a name that cannot be one."""
        job_name(tenant, key)
        job = Job(self.connection, self.store, tenant, key)
        if await asyncio.to_thread(read_manifest_or_none, self.store, tenant, key) is not None:
            return job
        try:
            # Started with plain JSON, and not prepared yet.
            await self.connection.temporal.get_workflow_handle(job.workflow_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise UnknownJob(
                    f"there is no job {tenant}/{key}", hint="`groupage jobs` lists what there is"
                ) from error
            raise GroupageError(f"Temporal does not tell about {job.workflow_id}: {error.message}") from error
        return job
