"""Google's clients for one profile: made in a thread at first use, thread-safe once they are made.

The SDK takes seconds to import, and only here. Its async REST client is broken (it makes the call and then
raises TypeError), so the sync one is used in threads.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from groupage.activities.providers.sdk_loading import load
from groupage.activities.providers.vertex_options import VertexOptions, is_loopback, wrong
from groupage.activities.settings import ProviderSettings

T = TypeVar("T")

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
POOL = 256
"""Connections kept open: sync calls at once are bounded by the job's policy, not here."""


class Clients:
    """Jobs, sync calls, Cloud Storage. BigQuery's plane makes its own client with `credentials_at`."""

    def __init__(self, settings: ProviderSettings, options: VertexOptions) -> None:
        self._settings = settings
        self._options = options
        self._made: dict[str, Any] = {}
        self._default: tuple[Any, str] | None = None
        self._making = threading.RLock()

    # Each blocks when called for the first time, and raises what google-auth raises where there are no credentials.

    @property
    def project(self) -> str:
        if self._options.project:
            return self._options.project
        project = "" if self._options.loopback else self._defaults()[1]
        if not project:
            raise wrong("no project is known: set GOOGLE_CLOUD_PROJECT or the option project")
        return project

    @property
    def parent(self) -> str:
        """`projects/P/locations/L`."""
        if not self._options.location:
            raise wrong("no location is known: set GOOGLE_CLOUD_LOCATION or the option location")
        return f"projects/{self.project}/locations/{self._options.location}"

    def credentials_at(self, url: str) -> Any:
        """Application Default Credentials; none of them for a server on this machine."""
        if is_loopback(url):
            from google.auth.credentials import AnonymousCredentials

            return AnonymousCredentials()  # type: ignore[no-untyped-call]
        return self._defaults()[0]

    def jobs(self) -> Any:
        """A JobServiceClient over REST."""
        return self.once("jobs", self._make_jobs)

    def http(self) -> Any:
        """A requests session with credentials for the API's endpoint."""
        return self.once("http", self._make_http)

    def storage(self) -> Any:
        """A google.cloud.storage.Client."""
        return self.once("storage", self._make_storage)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The client of that name, made by the first who asks and closed with the others."""
        with self._making:
            if name not in self._made:
                self._made[name] = make()
            made: T = self._made[name]
            return made

    def close(self) -> None:
        with self._making:
            made, self._made, self._default = list(self._made.values()), {}, None
        for client in made:
            # The job client's own close() leaves its session open.
            (getattr(client, "transport", None) or client).close()
            session = getattr(getattr(client, "transport", None), "_session", None)
            if session is not None:
                session.close()

    def _defaults(self) -> tuple[Any, str]:
        import google.auth

        with self._making:
            if self._default is None:
                credentials, project = google.auth.default(scopes=SCOPES)
                self._default = credentials, project or ""
            return self._default

    def _make_jobs(self) -> Any:
        from google.api_core.gapic_v1.client_info import ClientInfo
        from google.cloud.aiplatform_v1.services.job_service import JobServiceClient

        return JobServiceClient(
            credentials=self.credentials_at(self._options.api_endpoint),
            transport="rest",
            client_options={"api_endpoint": self._options.api_endpoint},
            client_info=ClientInfo(user_agent="groupage"),  # type: ignore[no-untyped-call]
        )

    def _make_http(self) -> Any:
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter

        session = AuthorizedSession(self.credentials_at(self._options.api_endpoint))  # type: ignore[no-untyped-call]
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=POOL, max_retries=0))
        session.headers.update(self._settings.extra_headers)
        return session

    def _make_storage(self) -> Any:
        load("google.cloud.storage", extra="vertex")
        from google.cloud.storage import Client  # type: ignore[import-untyped]

        endpoint = os.environ.get("STORAGE_EMULATOR_HOST", "")
        return Client(project=self.project, credentials=self.credentials_at(endpoint or "https://storage"))
