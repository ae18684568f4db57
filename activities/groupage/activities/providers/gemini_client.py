"""google-genai's client for one profile, and the HTTP client of ours that it sends everything through.

What the SDK would do on its own account is kept from it: it makes one attempt a call (it has no retries unless asked,
but sends a piece of an upload again by itself: `PieceRefused`), it has timeouts everywhere (by default it has
none), and Vertex's switches in the environment do not turn it into a client of Vertex. What the SDK drops of an
answer (a batch's error and counts, states that it does not know) is asked for past it, on the same connections: `rest`.
"""

import asyncio
import math
import os
import warnings
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from groupage.activities.providers.compatibility import facts_of
from groupage.activities.providers.gemini_errors import PieceRefused, answered, connection_error, translate
from groupage.activities.providers.openai_errors import read_object
from groupage.activities.providers.profile_options import secret_of
from groupage.activities.providers.sdk_loading import load
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.secrets import know_address

if TYPE_CHECKING:
    import httpx2
    from google import genai

T = TypeVar("T")

KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
VERSION = "v1beta"
POOL = 256
"""Connections kept open: sync calls at once are bounded by the job's policy, not here."""


class GeminiClient:
    """Connections belong to the running event loop; made at first use, after `close` anew."""

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self._name = name
        self._settings = settings
        self._http: httpx2.AsyncClient | None = None
        self._sdk: genai.Client | None = None
        self._connecting = asyncio.Lock()
        self._base_url = self._key = ""

    def _address(self) -> tuple[str, str]:
        """(base URL without a version, key). Raises ProviderError(account) where there is no key."""
        settings, facts = self._settings, facts_of(self._name, self._settings)
        variable = facts.base_url_env.value if facts.base_url_env else ""
        usual = facts.base_url.value if facts.base_url else ""
        base_url = know_address(settings.base_url or os.environ.get(variable or " ") or usual)
        if not base_url:
            raise _wrong(f"provider {self._name}: no address is known", f"set {variable} or the profile's base_url")
        names = [settings.api_key_env] if settings.api_key_env else [*KEYS]
        key = settings.api_key or next(filter(None, (secret_of(self._name, name) for name in names)), "")
        if not key:
            hint = f"set {' or '.join(names)}, or name another variable (the profile's api_key_env)"
            raise _wrong(f"provider {self._name}: no API key is known", hint)
        return base_url.rstrip("/").removesuffix(f"/{VERSION}"), key

    async def sdk(self) -> "genai.Client":
        async with self._connecting:
            if self._sdk is not None:
                return self._sdk
            self._base_url, self._key = self._address()
            # Importing the SDK takes half a second of CPU and more on a busy machine: not in the event loop.
            self._http, made = await asyncio.to_thread(self._connect)
            self._sdk = made
            return made

    async def http(self) -> "httpx2.AsyncClient":
        await self.sdk()
        assert self._http is not None
        return self._http

    def _connect(self) -> "tuple[httpx2.AsyncClient, genai.Client]":
        load("httpx2", "google.genai", extra="gemini")
        import httpx2
        from google import genai

        # It says so each time; what it is good for is tested here.
        warnings.filterwarnings("ignore", message=r"batches\.create_embeddings\(\) is experimental")
        http = httpx2.AsyncClient(
            timeout=self._timeout(self._settings.request_timeout_s),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=POOL),
            follow_redirects=False,
            event_hooks={"request": [self._before], "response": [_after]},
        )
        client = genai.Client(
            vertexai=False,
            api_key=self._key,
            http_options=genai.types.HttpOptions(
                base_url=self._base_url,
                api_version=VERSION,
                headers=dict(self._settings.extra_headers),
                timeout=milliseconds(self._settings.request_timeout_s),
                httpx_async_client=http,
            ),
        )
        # Resources are made when they are first named.
        _ = client.aio.batches, client.aio.files
        return http, client

    def _timeout(self, seconds: float) -> "httpx2.Timeout":
        import httpx2

        return httpx2.Timeout(seconds, connect=self._settings.connect_timeout_s)

    async def _before(self, request: "httpx2.Request") -> None:
        """The SDK knows one timeout for everything; connecting has its own."""
        timeout = request.extensions.get("timeout")
        if isinstance(timeout, dict) and timeout.get("connect") is not None:
            timeout["connect"] = min(timeout["connect"], self._settings.connect_timeout_s)

    async def call(self, what: str, work: Awaitable[T]) -> T:
        """A call of the SDK's; whatever it raises becomes ours."""
        try:
            return await work
        except Exception as error:
            ours = translate(error, what)
            if ours is None:
                raise
            raise ours from error

    async def send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        timeout_s: float | None = None,
        stream: bool = False,
    ) -> "httpx2.Response":
        """One request past the SDK; raises httpx2's errors. A streamed response has to be closed."""
        http = await self.http()
        headers = {"x-goog-api-key": self._key, "content-type": "application/json", **self._settings.extra_headers}
        if stream:
            headers["accept-encoding"] = "gzip, identity"
        request = http.build_request(
            method,
            f"{self._base_url}/{VERSION}/{path}",
            content=content,
            headers=headers,
            timeout=self._timeout(timeout_s or self._settings.request_timeout_s),
        )
        return await http.send(request, stream=stream)

    async def rest(self, what: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON object that a call answers with. Raises ProviderError."""
        await self.sdk()
        import httpx2

        try:
            response = await self.send(method, path, content=None if body is None else orjson.dumps(body))
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeEncodeError) as error:
            raise connection_error(error, what) from error
        if not response.is_success:
            raise answered(response, what)
        return read_object(response, what)

    async def close(self) -> None:
        http, client = self._http, self._sdk
        self._http = self._sdk = None
        self._connecting = asyncio.Lock()
        if client is not None:
            await client.aio.aclose()
            client.close()
        if http is not None:
            await http.aclose()


async def _after(response: "httpx2.Response") -> None:
    """A piece of an upload that was not answered by the upload protocol ends the upload."""
    if "upload" in response.request.headers.get("x-goog-upload-command", ""):
        status = response.headers.get("x-goog-upload-status")
        if not status or not response.is_success:
            await response.aread()
            raise PieceRefused(response)


def milliseconds(seconds: float) -> int:
    return math.ceil(seconds * 1000)


def _wrong(message: str, hint: str) -> ProviderError:
    return ProviderError(message, error_class=ErrorClass.account, code="configuration", hint=hint)
