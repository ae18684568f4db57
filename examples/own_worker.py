"""Groupage's workflows and activities in a worker of your own, beside yours.

TEMPORAL_ADDRESS=127.0.0.1:7233 python examples/own_worker.py
"""

import asyncio
import os

from groupage.client.config import load_settings
from groupage.workers import GroupagePlugin, Settings
from temporalio.client import Client
from temporalio.worker import Worker


async def main() -> None:
    plugin = GroupagePlugin(load_settings(Settings))
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"), plugins=[plugin])
    # workflows=[...] and activities=[...] of your own go here; the plugin adds Groupage's.
    worker = Worker(client, task_queue="groupage")
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
