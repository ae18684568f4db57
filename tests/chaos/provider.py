"""What the harness asks and tells the provider: the emulator's admin API, and the objects beside it."""

import asyncio
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.store_proxy import StoreProxy
from tests.side_by_side.providers import Provider as Record
from tests.side_by_side.servers import Servers, headers


class Provider:
    """One keep-alive connection; calls run in a thread, one at a time."""

    def __init__(self, record: Record, servers: Servers, proxy: StoreProxy | None) -> None:
        self._record, self._servers, self._proxy = record, servers, proxy
        self._address = urlsplit(servers.root).netloc
        self._connection: http.client.HTTPConnection | None = None
        self._lock = asyncio.Lock()

    def _ask(self, method: str, path: str, body: Any) -> bytes:
        for attempt in (0, 1):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._address, timeout=20)
            try:
                data = None if body is None else json.dumps(body).encode()
                self._connection.request(method, path, data, headers(self._servers.key))
                reply = self._connection.getresponse()
                said = reply.read()
            except (OSError, http.client.HTTPException):
                # The server drops idle connections.
                self.close()
                if attempt:
                    raise
                continue
            if reply.status >= 400:
                raise RuntimeError(f"{method} {path}: {reply.status} {said[:300]!r}")
            return said
        raise AssertionError("unreachable")

    async def ask(self, method: str, path: str, body: Any = None) -> bytes:
        async with self._lock:
            return await asyncio.to_thread(self._ask, method, path, body)

    async def begin(self, plan: dict[str, Any]) -> None:
        """Forget everything and take on a new fault plan."""
        await self.ask("POST", "/_emulator/reset")
        if self._record.prepare is not None:
            await asyncio.to_thread(self._record.prepare, self._servers)
        await self.ask("PUT", "/_emulator/faults", plan)
        if self._proxy is not None:
            self._proxy.begin(plan)

    async def state(self, *, files: bool = True) -> dict[str, Any]:
        """Batches, calls and what of ours lies there. Without `files` object stores are not asked, which takes longer."""
        state = dict(json.loads(await self.ask("GET", "/_emulator/state")))
        if self._proxy is not None:
            state["calls"] |= self._proxy.calls
        state["files"] = await asyncio.to_thread(self._record.leftovers, self._servers, state) if files else []
        return state

    async def questions(self) -> list[dict[str, Any]]:
        """Every row of the ledger."""
        lines = await self.ask("GET", "/_emulator/ledger/questions")
        return [json.loads(line) for line in lines.split(b"\n") if line]

    async def cancel(self, batch_id: str) -> None:
        """As a person would in the provider's console."""
        await self.ask(*self._record.cancel(batch_id))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
