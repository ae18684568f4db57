"""Entra tokens: got by azure-identity, kept until they are nearly over, then renewed.

A token lasts an hour or so and a job days, so each request asks `TokenSource` for one; that is a comparison of
two numbers as long as the token is good. azure-identity's synchronous credentials run in a thread: its
asynchronous ones need an HTTP library of their own, and some of them start a process (`az`).
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from groupage.activities.providers.openai_errors import NO_TOKEN
from groupage.activities.providers.profile_options import secret_of
from groupage.activities.providers.sdk_loading import load
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

TOKEN_VARIABLE = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105 - a variable's name
RENEW_BEFORE_S = 300.0
"""A token is renewed so long before it ends, as azure-core's own policy does, or earlier if it says so."""
RETRY_S = 30.0
"""Where renewing fails, the old token serves on while it is good, and renewing is tried again after this."""
FRESH_S = 60.0
"""A token that is refused though it was got within this is not too old: whoever it names may not do this."""
_HINT = (
    "set AZURE_OPENAI_API_KEY, or AZURE_OPENAI_AD_TOKEN, or give the worker an identity that azure-identity finds: "
    "a managed or workload identity, AZURE_TENANT_ID with AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or `az login`"
)


class Credential(Protocol):
    """What of azure-identity's credentials is used."""

    def get_token_info(self, *scopes: str) -> Any:
        """An object with `token`, `expires_on` and `refresh_on` (Unix seconds; the last may be None)."""
        ...

    def close(self) -> None: ...


class Tokens(Protocol):
    """Where a request's bearer token comes from."""

    async def get(self) -> str:
        """Raises ProviderError with code NO_TOKEN."""
        ...

    def may_retry(self, token: str) -> bool:
        """The server has refused this token (401): whether another one is to be had."""
        ...

    async def close(self) -> None: ...


class GivenToken:
    """The token in AZURE_OPENAI_AD_TOKEN: nobody here can renew it."""

    async def get(self) -> str:
        token = secret_of("azure", TOKEN_VARIABLE)
        if not token:
            raise _no_token(f"{TOKEN_VARIABLE} is empty", ErrorClass.account)
        return token

    def may_retry(self, token: str) -> bool:
        """Only if another one has been put there since."""
        return token != secret_of("azure", TOKEN_VARIABLE)

    async def close(self) -> None:
        return


@dataclass(slots=True)
class _Held:
    token: str
    got_at: float
    renew_at: float
    expires_at: float


class TokenSource:
    """One identity's tokens for one scope. Belongs to the running event loop."""

    def __init__(self, scope: str, make: Callable[[], Credential], now: Callable[[], float] = time.time) -> None:
        self._scope, self._make, self._now = scope, make, now
        self._credential: Credential | None = None
        self._held: _Held | None = None
        self._refused = ""
        self._start_anew = False
        self._renewing = asyncio.Lock()
        self._ever = False

    async def get(self) -> str:
        held = self._held
        if held is not None and self._now() < held.renew_at:
            return held.token
        async with self._renewing:
            held = self._held
            if held is not None and self._now() < held.renew_at:
                return held.token
            try:
                self._held = await asyncio.to_thread(self._fetch)
            except ProviderError:
                if held is None or self._now() >= held.expires_at:
                    raise
                held.renew_at = min(self._now() + RETRY_S, held.expires_at)
                return held.token
            self._ever = True
            return self._held.token

    def may_retry(self, token: str) -> bool:
        held = self._held
        if held is None or held.token != token:
            return True  # renewed meanwhile
        if token == self._refused or self._now() - held.got_at < FRESH_S:
            return False
        # Our clock may be wrong, or the token was revoked. The credential goes too: it has a cache of its own.
        self._refused, self._held, self._start_anew = token, None, True
        return True

    async def close(self) -> None:
        credential, self._credential = self._credential, None
        self._held, self._renewing = None, asyncio.Lock()
        if credential is not None:
            await asyncio.to_thread(credential.close)

    def _fetch(self) -> _Held:
        """In a thread. Raises ProviderError: transient where the way to the token is what failed."""
        load("azure.core.exceptions", "azure.identity", extra="azure")
        from azure.core.exceptions import AzureError, ClientAuthenticationError

        try:
            if self._credential is not None and self._start_anew:
                self._credential.close()
                self._credential = None
            self._start_anew = False
            if self._credential is None:
                self._credential = self._make()
            info = self._credential.get_token_info(self._scope)
        except ClientAuthenticationError as error:
            # An identity that has worked is still there; it is asked again. Without one a person is.
            found = ErrorClass.transient if self._ever else ErrorClass.account
            raise _no_token(error.message, found) from error
        except AzureError as error:
            raise _no_token(error.message, ErrorClass.transient) from error
        except ValueError as error:
            raise _no_token(str(error), ErrorClass.account) from error
        now = self._now()
        # Half of a short life at most: a token that lasts five minutes is not renewed with each request.
        margin = min(RENEW_BEFORE_S, (info.expires_on - now) / 2)
        renew_at = info.expires_on - margin
        if info.refresh_on is not None:
            renew_at = min(renew_at, max(info.refresh_on, now))
        return _Held(info.token, now, renew_at, float(info.expires_on))


def default_credential(client_id: str) -> Callable[[], Credential]:
    """azure-identity's DefaultAzureCredential, made when it is first needed: importing it takes half a second."""

    def make() -> Credential:
        from azure.identity import DefaultAzureCredential

        chosen = {"managed_identity_client_id": client_id, "workload_identity_client_id": client_id}
        credential: Credential = DefaultAzureCredential(**(chosen if client_id else {}))
        return credential

    return make


def _no_token(message: str, error_class: ErrorClass) -> ProviderError:
    hint = _HINT if error_class is ErrorClass.account else ""
    return ProviderError(
        f"provider azure: no Entra token: {message.strip()[:600]}", error_class=error_class, code=NO_TOKEN, hint=hint
    )
