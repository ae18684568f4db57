"""Anthropic's official client for one profile; what it raises becomes ours."""

import asyncio
import os
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from groupage.activities.providers.anthropic_batches import read_http_date
from groupage.activities.providers.anthropic_errors import translate
from groupage.activities.providers.call_errors import unsendable
from groupage.activities.providers.openai_errors import read_object
from groupage.activities.providers.profile_options import read_secret, secret_of
from groupage.activities.providers.sdk_loading import load
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.secrets import know, know_address

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

BATCHES = "/v1/messages/batches"
_RAW = {"X-Stainless-Raw-Response": "stream"}
"""The SDK's own mark of a request whose body it must not read."""


class AnthropicClient:
    """Connections belong to the running event loop; made at first use, after `close` anew."""

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self._name = name
        self._settings = settings
        self._sdk: AsyncAnthropic | None = None
        self._connecting = asyncio.Lock()

    async def sdk(self) -> "AsyncAnthropic":
        async with self._connecting:
            if self._sdk is None:
                # Importing the SDK takes a second of CPU and more on a busy machine: not in the event loop.
                self._sdk = await asyncio.to_thread(self._connect)
            return self._sdk

    def _connect(self) -> "AsyncAnthropic":
        """Where the profile names no key, the SDK looks for one itself: environment, profiles, federation."""
        load("anthropic", extra="anthropic")
        import anthropic

        settings = self._settings
        api_key = settings.api_key or secret_of(self._name, settings.api_key_env) or None
        base_url = know_address(settings.base_url or os.environ.get("ANTHROPIC_BASE_URL"))
        know(os.environ.get("ANTHROPIC_CUSTOM_HEADERS"))
        try:
            client = anthropic.AsyncAnthropic(
                api_key=api_key,
                # The SDK's paths begin with /v1 themselves; the emulator and other providers' URLs end in it.
                base_url=base_url.rstrip("/").removesuffix("/v1") if base_url else None,
                max_retries=0,
                timeout=self.timeout(settings.request_timeout_s),
                default_headers=dict(settings.extra_headers) or None,
            )
        except anthropic.AnthropicError as error:
            raise translate(error, f"provider {self._name}") from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise ProviderError(
                f"provider {self._name}: no API key is known",
                error_class=ErrorClass.account,
                code="no_api_key",
                hint="set ANTHROPIC_API_KEY on the worker, or the profile's api_key",
            )
        client.api_key = read_secret(self._name, client.api_key, "ANTHROPIC_API_KEY") or None
        client.auth_token = read_secret(self._name, client.auth_token, "ANTHROPIC_AUTH_TOKEN") or None
        # Resources are imported when they are first named.
        _ = client.messages.batches.with_raw_response
        return client

    def timeout(self, silence_s: float) -> "httpx2.Timeout":
        load("httpx2", extra="anthropic")
        import httpx2

        return httpx2.Timeout(silence_s, connect=self._settings.connect_timeout_s)

    async def call(self, what: str, request: Awaitable[Any]) -> dict[str, Any]:
        import anthropic

        try:
            response = await request
        except anthropic.AnthropicError as error:
            raise translate(error, what) from error
        except UnicodeEncodeError as error:
            raise unsendable(error, what) from None
        return read_object(getattr(response, "http_response", response), what)

    async def open_results(self, batch_id: str, what: str) -> "httpx2.Response":
        """The response with its body unread; the caller closes it."""
        import anthropic
        import httpx2

        client = await self.sdk()
        options: Any = {
            "headers": {**_RAW, "Accept": "application/binary", "Accept-Encoding": "gzip, identity"},
            "timeout": self.timeout(self._settings.transfer_timeout_s),
            "max_retries": 0,
        }
        try:
            return await client.get(f"{BATCHES}/{batch_id}/results", cast_to=httpx2.Response, options=options)
        except anthropic.AnthropicError as error:
            raise translate(error, what) from error

    async def page(self, **query: Any) -> tuple[dict[str, Any], timedelta]:
        """(a page of batches, how far the provider's clock is ahead of ours)."""
        what, client = "list of batches", await self.sdk()
        import anthropic

        try:
            raw = await client.messages.batches.with_raw_response.list(**query)
        except anthropic.AnthropicError as error:
            raise translate(error, what) from error
        there = read_http_date(raw.headers.get("date"))
        ahead = there - datetime.now(UTC) if there else timedelta(0)
        return read_object(raw.http_response, what), ahead

    async def close(self) -> None:
        client, self._sdk, self._connecting = self._sdk, None, asyncio.Lock()
        if client is not None:
            await client.close()
