"""Reading a finished job: its results as lines or as `Result`, in input order."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from groupage.schemas import Message, Result, Summary
from groupage.schemas.errors import StaleResult, StoreError, UsageError
from groupage.store import keys
from groupage.store.late import read_late, with_late
from groupage.store.objects import Store
from groupage.store.rows import RowTable, micros, moment_of, unpack_rows
from groupage.store.segments import read_manifest, zstd_chunks, zstd_lines
from pydantic import ValidationError


class Claim(Message):
    """`claims/{reader}.json`: this reader has fetched the results."""

    reader: str
    claimed_at: datetime


def read_summary(store: Store, tenant: str, key: str) -> Summary | None:
    """None while the job is not finished. Raises UnknownJob where there is none at all.

    What came home after the job had ended is added (late.py).
    """
    summary = store.get_message_or_none(keys.summary(tenant, key), Summary)
    if summary is None:
        read_manifest(store, tenant, key)
        return None
    return with_late(summary, read_late(store, tenant, key))


class JobResults:
    """The results of one finished job. `max_age` in each method: an older result raises StaleResult
    before anything of its part is handed out.
    """

    def __init__(self, store: Store, tenant: str, key: str) -> None:
        """Raises UnknownJob, and UsageError while the job is not finished."""
        summary = read_summary(store, tenant, key)
        if summary is None:
            raise UsageError(
                f"job {key!r} of tenant {tenant!r} is not finished", hint=f"wait: groupage watch {tenant}/{key}"
            )
        self.summary = summary
        self._store = store
        self._at = (tenant, key)

    def lines(self, max_age: timedelta | None = None) -> Iterator[bytes]:
        """Each result as its JSON line, newline included. Streams; memory does not grow with the job."""
        for part in range(self.summary.result_parts):
            self._check_age(part, max_age)
            name = keys.result_part(*self._at, part)
            yield from zstd_lines(self._store.stream(name), name)

    def results(self, max_age: timedelta | None = None) -> Iterator[Result]:
        for line in self.lines(max_age):
            yield parse_result(line)

    def copy_to(self, file: BinaryIO, max_age: timedelta | None = None) -> int:
        """Write all lines to a file, in large pieces; returns how many bytes. One piece is written while the next
        one is unpacked.
        """
        size = 0
        with ThreadPoolExecutor(1, thread_name_prefix="copy") as pool:
            written: Future[int] | None = None
            for part in range(self.summary.result_parts):
                self._check_age(part, max_age)
                name = keys.result_part(*self._at, part)
                for data in zstd_chunks(self._store.stream(name), name):
                    if written is not None:
                        written.result()
                    written = pool.submit(file.write, data)
                    size += len(data)
            if written is not None:
                written.result()
        return size

    def rows(self) -> Iterator[RowTable]:
        """Outcomes, usage and money of each part, without the bodies."""
        for part in range(self.summary.result_parts):
            yield self._rows(part)

    def _rows(self, part: int) -> RowTable:
        name = keys.result_part_index(*self._at, part)
        return unpack_rows(self._store.get(name), name)[0]

    def _check_age(self, part: int, max_age: timedelta | None) -> None:
        if max_age is None:
            return
        produced = self._rows(part).rows["produced_at"]
        oldest = int(produced.min())
        if micros(datetime.now(UTC)) - oldest > max_age // timedelta(microseconds=1):
            raise StaleResult(
                f"part {part} of job {self._at[1]!r} has a result of {moment_of(oldest):%Y-%m-%d %H:%M} UTC, "
                f"older than {max_age}",
                hint="run the job again under a new key, or allow older results",
            )


def parse_result(line: bytes) -> Result:
    """One result line. Raises StoreError where it is none."""
    try:
        return Result.model_validate_json(line)
    except ValidationError as error:
        try:
            # Half surrogate pairs in a body are legal JSON, which pydantic's own parser refuses.
            return Result.model_validate(json.loads(line))
        except ValueError:
            raise StoreError(f"a result line is damaged: {error.errors()[0]['msg']}") from error


def claim_results(store: Store, tenant: str, key: str, reader: str = "default") -> None:
    """Note that `reader` has fetched the results; the first time counts."""
    store.put_new_message(keys.claim(tenant, key, reader), Claim(reader=reader, claimed_at=datetime.now(UTC)))


def is_claimed(store: Store, tenant: str, key: str) -> bool:
    """Whether any reader has fetched the job's results."""
    return next(iter(store.list(keys.claims(tenant, key))), None) is not None
