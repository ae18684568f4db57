"""Fetching a batch's result files onto the local disk, whichever names it gives them by then."""

import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from groupage.activities.providers.base import BatchProvider, ResultFile
from groupage.activities.threads import check
from groupage.schemas import BatchStatus, ErrorClass
from groupage.schemas.activity_calls import CollectBatch
from groupage.schemas.errors import ProviderError
from temporalio import activity

COPY_BYTES = 1 << 20


class Replaced(Exception):
    """The result files are others than those that were named first."""

    def __init__(self, status: BatchStatus) -> None:
        super().__init__(status.batch_id)
        self.status = status


@dataclass(slots=True)
class Download:
    name: str
    path: Path
    lines: bool


async def download_files(
    provider: BatchProvider, call: CollectBatch, not_visible: timedelta, folder: Path
) -> tuple[list[Download], list[str]]:
    """(files on the local disk, notes on those that are gone)."""
    downloads: list[Download] = []
    lost: list[str] = []
    files = provider.result_files(call.status) if call.status.batch_id else []
    for name, file in _named(files):
        path = folder / name
        try:
            await provider.download(file, path)
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise
            await _look_again(provider, call)
            ended_at = call.status.ended_at or call.submitted_at
            if datetime.now(UTC) - ended_at < not_visible:
                raise ProviderError(
                    f"result file {file.ref} of {call.status.batch_id} is not visible yet: {error}",
                    error_class=ErrorClass.transient,
                    code=error.code,
                    status=error.status,
                ) from error
            lost.append(f"result file {file.ref} ({file.kind}) is gone at the provider")
            continue
        downloads.append(Download(name, path, file.lines))
    return downloads, lost


async def _look_again(provider: BatchProvider, call: CollectBatch) -> None:
    """Raises Replaced where the batch names other result files by now than it did when it was seen to end."""
    try:
        status = await provider.status(call.status.batch_id)
    except ProviderError as error:
        activity.logger.warning("batch %s cannot be looked at again: %s", call.status.batch_id, error)
        return
    if status.phase.ended and provider.result_files(status) != provider.result_files(call.status):
        raise Replaced(status)


def _named(files: Iterable[ResultFile]) -> list[tuple[str, ResultFile]]:
    """Each with its name in the store: output, errors; a second of a kind is output-1."""
    seen: dict[str, int] = {}
    named = []
    for file in files:
        count = seen.get(file.kind, 0)
        seen[file.kind] = count + 1
        named.append((f"{file.kind}-{count}" if count else file.kind, file))
    return named


def digests(downloads: list[Download], stop: threading.Event) -> list[str]:
    """By which files fetched again are told to be the same."""
    digests = []
    for download in downloads:
        digest = hashlib.sha256()
        with download.path.open("rb") as file:
            while chunk := file.read(COPY_BYTES):
                check(stop)
                digest.update(chunk)
        digests.append(digest.hexdigest())
    return digests
