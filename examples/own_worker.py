"""Groupage's workflows and activities in a worker of your own, beside yours.

    TEMPORAL_ADDRESS=127.0.0.1:7233 python examples/own_worker.py

The worker needs the store and the providers' keys; whoever submits needs the same server and store.
"""

import asyncio
import os
import signal
import sys

from groupage.client.config import load_settings
from groupage.schemas.errors import GroupageError
from groupage.workers import GroupagePlugin, Settings
from temporalio.client import Client
from temporalio.worker import Worker


async def main() -> None:
    plugin = GroupagePlugin(load_settings(Settings))
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"), plugins=[plugin])
    task_queue = await plugin.task_queue(client)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # workflows=[...] and activities=[...] of your own go here; the plugin adds Groupage's.
    async with Worker(client, task_queue=task_queue):
        print(f"listening on task queue {task_queue}; stop with Ctrl-C", flush=True)
        await stop.wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except GroupageError as error:
        sys.exit(f"{error}\n{error.hint}")
