"""Intake, second half: put a spooled input into the store as a job, once.

The manifest is put first, on condition that there is none: it decides which content the key stands
for. Then what is missing of its objects is put, none of them over another. So a crash anywhere is
mended by doing the same again, and two callers with the same content help each other.
"""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import zstandard
from groupage.schemas import JobManifest, RequestGroup
from groupage.schemas.errors import KeyConflict, StoreError
from groupage.schemas.ids import check_key, check_tenant, job_token
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import REQUEST_ROW, Rows
from groupage.store.segments import read_manifest_or_none
from groupage.store.spooled import SpooledInput

UPLOADS_AT_ONCE = 4
NAMES_SHOWN = 5


def default_key(fingerprint: str) -> str:
    """The key of a job whose caller gave none: 32 characters of its content's fingerprint."""
    return fingerprint[:32]


def accept_job(
    store: Store,
    spooled: SpooledInput,
    *,
    tenant: str,
    key: str,
    owner: str,
    source: str = "",
    heartbeat: Callable[[int], None] | None = None,
) -> JobManifest:
    """Accept the input as the job `key`, or return the manifest of the same content accepted before.

    When it returns, all of the job's request objects are in the store. `owner` is from
    `deployment_owner`. Raises KeyConflict where the key stands for other content (or another
    provider), StoreError; ValueError for a tenant or key that cannot be one. `heartbeat` is called
    with the number of segments stored.
    """
    salt = secrets.token_hex(8)
    drawn = JobManifest(
        tenant=check_tenant(tenant),
        key=check_key(key),
        salt=salt,
        token=job_token(owner, tenant, key, salt),
        fingerprint=spooled.fingerprint,
        provider=spooled.provider,
        requests=spooled.requests,
        rejected=spooled.rejected,
        groups=spooled.groups,
        segments=spooled.segments,
        accepted_at=datetime.now(UTC).isoformat(),
        source=source,
    )
    manifest = read_manifest_or_none(store, tenant, key)
    if manifest is None:
        store.put_new_message(keys.manifest(tenant, key), drawn)
        # Read back in any case: the put may have got through although its answer was lost.
        manifest = read_manifest_or_none(store, tenant, key)
    if manifest is None:
        raise StoreError(f"the manifest of job {key!r} was written but cannot be read in {store.url}")
    if manifest.fingerprint != spooled.fingerprint:
        raise KeyConflict(
            f"job {key!r} of tenant {tenant!r} was accepted {manifest.accepted_at} with other content: "
            f"{_difference(manifest, spooled)}",
            hint="give the new content a key of its own, or leave the key out: it is then made from the content",
        )
    _upload(store, spooled, manifest, heartbeat or _no_heartbeat)
    return manifest


def missing_objects(store: Store, manifest: JobManifest) -> list[str]:
    """Keys of request objects that an accepted job lacks; empty once `accept_job` has returned."""
    there = set(store.list(keys.requests(manifest.tenant, manifest.key)))
    return [name for name in _expected(manifest) if name not in there]


def _difference(manifest: JobManifest, spooled: SpooledInput) -> str:
    """What was accepted and what it is now, as far as a manifest tells: provider, numbers, models, endpoints."""
    before = _told(manifest.provider, manifest.requests, manifest.rejected, manifest.groups)
    now = _told(spooled.provider, spooled.requests, spooled.rejected, spooled.groups)
    changed = [f"{what} {before[what]}, now {now[what]}" for what in before if before[what] != now[what]]
    if before["model"] != now["model"] or before["requests"] != now["requests"]:
        # It differs for that reason alone.
        changed = [each for each in changed if not each.startswith("requests by model")]
    if changed:
        return "; ".join(changed)
    alike = ", ".join(f"{what} {before[what]}" for what in ("provider", "requests", "model"))
    return f"{alike} as before, but some text, parameter, id or label, or their order, differs"


def _told(provider: str, requests: int, rejected: int, groups: list[RequestGroup]) -> dict[str, str]:
    return {
        "provider": provider,
        "requests": f"{requests:,}",
        "model": _names({group.model for group in groups}),
        "endpoint": _names({group.endpoint for group in groups}),
        "lines that cannot be sent": f"{rejected:,}",
        "requests by model": ", ".join(f"{group.model} {group.requests:,}" for group in groups[:NAMES_SHOWN]),
    }


def _names(names: set[str]) -> str:
    shown = sorted(names)[:NAMES_SHOWN]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _expected(manifest: JobManifest) -> Iterator[str]:
    at = (manifest.tenant, manifest.key)
    if manifest.rejected:
        yield keys.rejected(*at)
    for segment in range(len(manifest.segments)):
        yield keys.segment_data(*at, segment)
        yield keys.segment_index(*at, segment)


def _upload(store: Store, spooled: SpooledInput, manifest: JobManifest, beat: Callable[[int], None]) -> None:
    missing = set(missing_objects(store, manifest))
    if not missing:
        return
    at = (manifest.tenant, manifest.key)
    if keys.rejected(*at) in missing:
        store.put_file(keys.rejected(*at), spooled.rejected_path)
    numbers = [
        number
        for number in range(len(manifest.segments))
        if keys.segment_data(*at, number) in missing or keys.segment_index(*at, number) in missing
    ]
    if spooled.segments != manifest.segments:
        spooled = _cut_like(spooled, manifest)
    with ThreadPoolExecutor(UPLOADS_AT_ONCE, thread_name_prefix="accept") as pool:
        for done, upload in enumerate(
            as_completed([pool.submit(_put_segment, store, spooled, manifest, number) for number in numbers]), 1
        ):
            upload.result()
            beat(done)


def _put_segment(store: Store, spooled: SpooledInput, manifest: JobManifest, number: int) -> None:
    at = (manifest.tenant, manifest.key)
    store.put_new(keys.segment_data(*at, number), spooled.data_path(number).read_bytes())
    store.put_new(keys.segment_index(*at, number), spooled.index_path(number).read_bytes())


def _cut_like(spooled: SpooledInput, manifest: JobManifest) -> SpooledInput:
    """The same content in the manifest's segments: it was accepted by code with other segment sizes."""
    folder = spooled.directory / "recut"
    folder.mkdir(exist_ok=True)
    cut = SpooledInput(folder, spooled.provider, segments=manifest.segments)
    whole = _pieces(spooled)
    held, kept = b"", np.empty(0, dtype=REQUEST_ROW)
    for number, segment in enumerate(manifest.segments):
        while len(kept) < segment.requests:
            data, rows = next(whole)
            held, kept = held + data, np.concatenate((kept, rows))
        size = int(kept["size"][: segment.requests].sum(dtype=np.int64))
        if size != segment.bytes:
            raise StoreError(f"job {manifest.key!r}: segment {number} of the same content has another size")
        _write(cut.data_path(number), cut.index_path(number), held[:size], kept[: segment.requests])
        held, kept = held[size:], kept[segment.requests :]
    return cut


def _pieces(spooled: SpooledInput) -> Iterator[tuple[bytes, Rows]]:
    for number in range(len(spooled.segments)):
        yield spooled.lines(number), spooled.rows(number)


def _write(data_path: Path, index_path: Path, data: bytes, rows: Rows) -> None:
    data_path.write_bytes(zstandard.ZstdCompressor(level=3).compress(data))
    rows.tofile(index_path)


def _no_heartbeat(_done: int) -> None:
    return
