"""Where a Vertex job's input comes from and where its output goes: Cloud Storage or BigQuery.

The adapter knows the job service; a data plane knows one kind of place. Refs are `gs://bucket/key` and
`bq://project.dataset.table`. Jobs and configurations are plain JSON in REST's own words (camelCase). All methods
are one attempt and raise ProviderError; what a plane calls is blocking and runs in threads.

How a line names its request is the plane's business too: `line` writes what is uploaded, and what `download`
leaves on the disk is one JSON object a line, ``{"wire_id"?: ..., "custom_id"?: ..., "request": {...},
"response"?: {...}, "status"?: "..."}``, with our id in whichever of these places the plane can keep it.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from groupage.activities.providers.base import Submission
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_options import VertexOptions, wrong
from groupage.activities.settings import ProviderSettings

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataObject:
    """An object or a table that carries our tag."""

    ref: str
    tag: str
    made_at: datetime | None = None


class DataPlane(Protocol):
    """One kind of place for data."""

    def line(self, wire_id: str, request: bytes, *, claude: bool) -> bytes:
        """One line of the file that `upload` gets, newline included. `request` is the body in JSON, translated."""
        ...

    async def upload(self, submission: Submission) -> list[str]:
        """Find or create the input by tag; its ref."""
        ...

    def input_config(self, files: Sequence[str]) -> Json:
        """The job's `inputConfig` for what `upload` returned."""
        ...

    def output_config(self, submission: Submission) -> Json:
        """The job's `outputConfig`. A tag may have several jobs one after the other: `not_ids` are the dead ones."""
        ...

    async def result_files(self, job: Json) -> list[str]:
        """Refs of everything that an ended job has put out; [] where there is nothing (yet)."""
        ...

    async def download(self, ref: str, path: Path) -> int:
        """Stream one of them to `path` as JSON lines (above); returns its size. One cut short raises transient."""
        ...

    async def delete(self, ref: str) -> None:
        """Delete an input or an output; one that is gone already is no error."""
        ...

    def list_ours(self, owner: str) -> AsyncIterator[DataObject]:
        """All inputs and outputs whose tag starts with this deployment's owner code (`g{owner}-`)."""
        ...


def open_plane(scheme: str, options: VertexOptions, settings: ProviderSettings, clients: Clients) -> DataPlane:
    """The plane for `gs` or `bq`. Raises ProviderError(account) for another one."""
    if scheme == "gs":
        from groupage.activities.providers.vertex_gcs import GcsData

        return GcsData(options, settings, clients)
    if scheme == "bq":
        from groupage.activities.providers.vertex_bigquery import BigQueryData

        return BigQueryData(options, settings, clients)
    raise wrong("nothing says where data lie: set GROUPAGE_VERTEX_DATA or the option data to gs://bucket/prefix")
