"""Azure OpenAI's global and data-zone batches, through the official SDK: OpenAI's adapter with another door.

v1 is OpenAI's API under another address; the older surface has a dated api-version, and the deployment in the
path of sync calls. `body.model` is the deployment's name in both. What differs besides:

* a file is taken in after it was uploaded, and only then is a batch to be made of it
* files do not expire unless told to, and 500 of those are all that a resource holds (10,000 with an expiry)
* a batch that takes longer than its 24 hours is not expired: only our own deadlines end it
* an error file is named even where it is empty
"""

import asyncio
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from groupage.activities.providers.azure_options import read_address, read_options
from groupage.activities.providers.azure_tokens import (
    TOKEN_VARIABLE,
    GivenToken,
    Tokens,
    TokenSource,
    default_credential,
)
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.exact_json import dumps, loads
from groupage.activities.providers.openai import OpenAIProvider
from groupage.activities.providers.openai_batches import OF_FILE
from groupage.activities.providers.openai_errors import NO_TOKEN
from groupage.activities.providers.profile_options import secret_of
from groupage.activities.providers.sdk_loading import load
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

if TYPE_CHECKING:
    import httpx2
    import openai
    from openai import AsyncOpenAI

FILE_READY_S = 600.0
"""How long one attempt waits until an uploaded file is taken in; the next one finds the file and waits on."""
FILE_POLL_S = (0.2, 5.0)
"""First and longest pause between two looks at it."""
FILE_VISIBLE_S = 60.0
"""A file that is not found after this is gone; before, it may be not visible yet."""
_TAKEN_IN = frozenset({"processed", "succeeded"})
_NOT_TAKEN = frozenset({"error", "failed"})
_NO_SYNC = frozenset({"OperationNotSupported", "DeploymentNotFound"})
"""What a deployment for batches says to a single request, and what one that is not there says."""
_NO_DEPLOYMENT = "model_not_found"
"""Of a whole batch: the deployment is not there (yet), or has another name, and only a person can mend that."""
_IN_DEPLOYMENTS = frozenset({"/chat/completions", "/completions", "/embeddings"})
"""Endpoints that have the deployment in their path under a dated api-version (openai 3.57, lib/azure.py)."""


class AzureProvider(OpenAIProvider):
    """One credential profile at one Azure OpenAI resource."""

    _of_file = OF_FILE | {_NO_DEPLOYMENT: ErrorClass.account}

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        self._options = read_options(settings)
        self._tokens: Tokens | None = None

    # ----- how the two surfaces write things -----

    def _written(self, endpoint: str) -> str:
        # As the guides have it; both spellings are accepted by both surfaces.
        return endpoint.removeprefix("/v1") if self._options.legacy and endpoint == "/v1/chat/completions" else endpoint

    def _path(self, call: SyncCall) -> str:
        path = call.endpoint.removeprefix("/v1")
        if not self._options.legacy or path not in _IN_DEPLOYMENTS:
            return path
        return f"/deployments/{quote(_deployment(call, orjson.loads(call.body)), safe='')}{path}"

    async def complete(self, call: SyncCall) -> Answer:
        if self._options.sync_deployments:
            body = loads(call.body)
            if isinstance(body, dict) and isinstance(body.get("model"), str):
                body["model"] = self._options.sync_deployment(body["model"])
                call = replace(call, body=dumps(body))
        return await super().complete(call)

    # ----- connecting -----

    def _connect(self) -> "AsyncOpenAI":
        load("openai", extra="azure")
        from openai import AsyncAzureOpenAI, AsyncOpenAI

        address, options = read_address(self._settings, self._dialect), self._options
        common: dict[str, Any] = {
            "max_retries": 0,
            "timeout": self._timeout(self._settings.request_timeout_s),
            "default_headers": dict(self._settings.extra_headers) or None,
        }
        key = self._key()
        self._tokens = None if key else self._token_source()
        token = self._tokens.get if self._tokens else None
        credential: dict[str, Any] = {"api_key": key} if token is None else {"azure_ad_token_provider": token}
        client: AsyncOpenAI
        if options.legacy:
            client = AsyncAzureOpenAI(
                azure_endpoint=address.root,
                api_version=options.api_version,
                **credential,
                **common,
            )
        else:
            client = AsyncOpenAI(
                base_url=address.v1, api_key=token or key, default_query=options.query or None, **common
            )
        # Resources are imported when they are first named.
        _ = client.batches.with_raw_response, client.files.with_raw_response
        return client

    def _key(self) -> str | None:
        settings = self._settings
        variable = settings.api_key_env or self._dialect.api_key_env
        key = settings.api_key or secret_of(self.name, variable)
        if settings.api_key_env and not key:
            # A profile that names a variable means that one: no other identity is to stand in for it.
            raise ProviderError(
                f"provider {self.name}: no API key is known",
                error_class=ErrorClass.account,
                code="no_api_key",
                hint=f"set {variable} on the worker, or take api_key_env out of the profile to use an Entra token",
            )
        return key or None

    def _token_source(self) -> Tokens:
        if os.environ.get(TOKEN_VARIABLE):
            return GivenToken()
        return TokenSource(self._options.token_scope, default_credential(self._options.client_id))

    async def close(self) -> None:
        tokens, self._tokens = self._tokens, None
        await super().close()
        if tokens is not None:
            await tokens.close()

    # ----- files -----

    async def _settled_file(self, file: dict[str, Any]) -> dict[str, Any]:
        """The file once it is processed, with the status "error" where it cannot be.

        Raises ProviderError(transient) after FILE_READY_S; the file stays, and is found by the next attempt.
        """
        file_id = str(file["id"])
        began = time.monotonic()
        pause, longest = FILE_POLL_S
        looked = False
        while True:
            status = str(file.get("status") or "").lower()
            # An upload is answered with null by some versions; a look that says null again has no more to tell.
            if status in _TAKEN_IN or (looked and not status):
                return file
            if status in _NOT_TAKEN:
                return {**file, "status": "error"}
            if time.monotonic() - began > FILE_READY_S:
                raise ProviderError(
                    f"file {file_id} is {status or 'in no known state'} after {FILE_READY_S:g} s",
                    error_class=ErrorClass.transient,
                    code="not_processed",
                )
            if looked or status:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, longest)
            try:
                retrieved = (await self._sdk()).files.with_raw_response.retrieve(file_id)
                file, looked = await self._call(f"status of file {file_id}", retrieved), True
            except ProviderError as error:
                # A look that fails in passing says nothing about the file (PO-02).
                if error.error_class is ErrorClass.missing and time.monotonic() - began > FILE_VISIBLE_S:
                    raise
                if error.error_class not in {ErrorClass.transient, ErrorClass.rate_limit, ErrorClass.missing}:
                    raise
                await asyncio.sleep(pause)

    # ----- errors -----

    def _translated(self, error: "openai.OpenAIError", what: str) -> ProviderError:
        import openai

        made = super()._translated(error, what)
        if not isinstance(error, openai.APIStatusError):
            return made
        if error.status_code == 401:
            if self._token_is_old(error.response):
                return ProviderError(
                    str(made), error_class=ErrorClass.transient, code=NO_TOKEN, status=401, retry_after_s=0.0
                )
            made.hint = _hint_of_401(self._tokens)
        elif made.code == _NO_DEPLOYMENT:
            made.error_class = ErrorClass.account
        elif made.error_class is ErrorClass.missing and "resource not found" in str(made).lower():
            made.hint = "look at the endpoint and the api_version: the resource has no such path"
        return made

    def _token_is_old(self, response: "httpx2.Response") -> bool:
        sent = response.request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._tokens is not None and self._tokens.may_retry(sent)

    def _reply(self, call: SyncCall, response: "httpx2.Response") -> Answer:
        answer = super()._reply(call, response)
        if response.status_code == 401 and self._token_is_old(response):
            answer.error_class, answer.code, answer.retry_after_s = ErrorClass.transient, NO_TOKEN, 0.0
        elif answer.code in _NO_SYNC:
            # Not the request's fault: with another deployment named, all of them will be answered.
            answer.error_class = ErrorClass.account
            answer.message = f"{answer.message} (name the deployment for single requests in sync_deployments)"
        return answer


def _hint_of_401(tokens: Tokens | None) -> str:
    if tokens is None:
        return "the key is not one of this resource, or the resource takes Entra tokens only"
    if isinstance(tokens, GivenToken):
        return f"{TOKEN_VARIABLE} is refused: such a token lasts about an hour and cannot be renewed by the worker"
    return "the worker's identity needs the role Cognitive Services OpenAI User (or Contributor) on the resource"


def _deployment(call: SyncCall, body: Any) -> str:
    """The deployment's name: the model of the body."""
    model = body.get("model") if isinstance(body, dict) else None
    if not isinstance(model, str) or not model:
        raise ProviderError(
            f"{call.endpoint} for {call.wire_id}: the body names no model, which is the deployment's name",
            error_class=ErrorClass.invalid,
            code="no_deployment",
        )
    return model
