"""boto3's clients for one profile: made in a thread at first use, one attempt a call, explicit timeouts."""

import os
import threading
from typing import Any

from groupage.activities.providers.bedrock_options import BedrockOptions, wrong
from groupage.activities.providers.bedrock_runtime import keep_replies
from groupage.activities.providers.sdk_loading import load
from groupage.activities.settings import ProviderSettings
from groupage.schemas.secrets import know

POOL = 256
"""Connections kept open: sync calls at once are bounded by the job's policy, not here."""

_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")


class Clients:
    """By service and read timeout. Thread-safe, as boto3's clients are; its sessions are not."""

    def __init__(self, settings: ProviderSettings, options: BedrockOptions) -> None:
        self._settings = settings
        self._options = options
        self._made: dict[tuple[str, float], Any] = {}
        self._session: Any = None
        self._making = threading.Lock()

    def get(self, service: str, read_timeout_s: float) -> Any:
        """Blocks for some 0.3 s the first time. Raises what boto3 raises for a bad configuration."""
        key = (service, read_timeout_s)
        with self._making:
            if key not in self._made:
                self._made[key] = self._make(service, read_timeout_s)
            return self._made[key]

    def _make(self, service: str, read_timeout_s: float) -> Any:
        load("boto3", extra="bedrock")
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]

        options, settings = self._options, self._settings
        if self._session is None:
            know(*(os.environ.get(variable) for variable in _SECRETS))
            # boto3 itself reads AWS_DEFAULT_REGION only.
            region = options.region or os.environ.get("AWS_REGION") or None
            self._session = boto3.Session(profile_name=options.aws_profile or None, region_name=region)
        if not self._session.region_name:
            raise wrong("no region is known: set AWS_REGION or the option region")
        config = Config(
            connect_timeout=settings.connect_timeout_s,
            read_timeout=read_timeout_s,
            # One layer retries, and it is not this one (docs/cases.md SU-04).
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=POOL,
            user_agent_extra="groupage",
        )
        # A profile's base_url is for Bedrock itself; S3 has its own variable, AWS_ENDPOINT_URL_S3.
        endpoint = settings.base_url if service != "s3" else None
        client = self._session.client(service, config=config, endpoint_url=endpoint)
        if settings.extra_headers and service != "s3":
            client.meta.events.register("before-sign", self._add_headers)
        if service == "bedrock-runtime":
            keep_replies(client)
        return client

    def _add_headers(self, request: Any, **_more: Any) -> None:
        for name, value in self._settings.extra_headers.items():
            request.headers[name] = value

    def forget(self, client: Any) -> None:
        """Make all anew at the next use: credentials that were refused may have been renewed in their file, which a
        session reads once. Nothing happens if that was done since this client was got.
        """
        with self._making:
            if any(client is each for each in self._made.values()):
                self._close()

    def close(self) -> None:
        with self._making:
            self._close()

    def _close(self) -> None:
        made, self._made, self._session = list(self._made.values()), {}, None
        for client in made:
            # Calls under way go on: only connections that are idle are closed.
            client.close()
