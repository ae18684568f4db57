"""The servers that stand in for providers: the emulator, and the object stores that some of them work over."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupage.store.objects import open_store

from tests.integration.store.gcs_server import GcsServer, running_gcs
from tests.integration.store.s3_server import S3Server, running_s3

BUCKET = "groupage"
PROJECT, DATASET, LOCATION = "test-project", "batches", "us-central1"


@dataclass(frozen=True, slots=True)
class Stores:
    """The object stores that providers read from and write to; each run has a prefix of its own in them."""

    s3: S3Server | None = None
    gcs: GcsServer | None = None

    @property
    def endpoint(self) -> str:
        """ "" where there is none."""
        one = self.s3 or self.gcs
        return one.endpoint if one else ""

    def behind(self, endpoint: str) -> "Stores":
        """The same by another address."""
        return Stores(
            replace(self.s3, endpoint=endpoint) if self.s3 else None,
            replace(self.gcs, endpoint=endpoint) if self.gcs else None,
        )

    def variables(self) -> dict[str, str]:
        """For whoever works over them: adapters, and the emulator in the place of the provider's service."""
        found = self.s3.variables() if self.s3 else {}
        return found | (self.gcs.variables() if self.gcs else {})


@dataclass(frozen=True, slots=True)
class Servers:
    """Where one run's servers are. `root` is the emulator's address, `key` the only one that it takes."""

    root: str
    key: str
    stores: Stores = field(default_factory=Stores)
    prefix: str = "groupage/"
    """Of all objects, where the provider has objects."""

    @property
    def v1(self) -> str:
        return f"{self.root}/v1"


@contextmanager
def running_stores(kind: str, folder: Path, key: str, *, megabytes: int = 1280) -> Iterator[Stores]:
    """The object store that is asked for ("s3", "gcs" or ""), with room for so much; ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if kind == "s3":
            volumes = megabytes // 64
            yield Stores(
                s3=stack.enter_context(running_s3(folder, access_key=key, secret_key=f"secret-{key}", volumes=volumes))
            )
        elif kind == "gcs":
            yield Stores(gcs=stack.enter_context(running_gcs(folder, in_memory=False)))
        else:
            yield Stores()


def s3_objects(servers: Servers) -> list[str]:
    assert servers.stores.s3 is not None
    store = open_store(f"s3://{BUCKET}", **servers.stores.s3.options())
    return [key for key in store.list(servers.prefix) if not key.endswith("/")]


def gcs_objects(servers: Servers) -> list[str]:
    assert servers.stores.gcs is not None
    return servers.stores.gcs.keys(servers.prefix)


def bigquery_tables(servers: Servers) -> list[str]:
    found = ask(servers, "GET", f"/bigquery/v2/projects/{PROJECT}/datasets/{DATASET}/tables?maxResults=1000")
    return [table["tableReference"]["tableId"] for table in found.get("tables", ())]


def make_dataset(servers: Servers) -> None:
    """A new emulator, and one that was told to forget everything, has none."""
    where = {"projectId": PROJECT, "datasetId": DATASET}
    body = {"datasetReference": where, "location": LOCATION}
    ask(servers, "POST", f"/bigquery/v2/projects/{PROJECT}/datasets", body)


def ask(servers: Servers, method: str, path: str, body: Any = None) -> Any:
    """One call to the emulator, with the key in every header that a provider looks at."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(servers.root + path, data, headers(servers.key), method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def headers(key: str) -> dict[str, str]:
    known = dict.fromkeys(("x-api-key", "api-key", "x-goog-api-key"), key)
    said = {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    return known | said
