"""Preparing a job: its requests are in the store, counted and priced, or it is clear why not."""

import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path

import orjson
from groupage.activities.pricing import PriceBook, to_usd
from groupage.activities.providers.base import BatchProvider, facts_about
from groupage.activities.threads import check
from groupage.schemas import JobManifest, JobPolicy, JobRef, JobSpec, Route
from groupage.schemas.activity_calls import PreparedJob, PrepareJob
from groupage.schemas.errors import InputRefused, KeyConflict, UsageError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX, PAYLOAD_MAX_BYTES, PROBLEMS_SHOWN
from groupage.schemas.portable import Inexpressible
from groupage.schemas.requests import RequestGroup
from groupage.store.acceptance import accept_job, missing_objects
from groupage.store.deployment import deployment_owner
from groupage.store.objects import ObjectMissing, Store, stream_url
from groupage.store.parsing import rules_of
from groupage.store.segments import SegmentReader, read_manifest_or_none
from groupage.store.shards import count_rounds
from groupage.store.spool import spool_requests

_UNPRICED_SHOWN = 5
_MODEL_MAX = 100
"""Characters of a model's name where it is only shown."""

_PROBLEM_MAX = min(FAILURE_MESSAGE_MAX, PAYLOAD_MAX_BYTES // (2 * PROBLEMS_SHOWN))
"""Characters of one problem in the message: all of them together stay below the payload limit."""


def prepare_job(
    store: Store,
    provider: BatchProvider,
    call: PrepareJob,
    spool: Path,
    stop: threading.Event,
    *,
    dialect: str | None = None,
) -> PreparedJob:
    """Accept the job's input unless it was accepted before; then count. Blocks: run it in a thread.

    `dialect` is the catalog's for the provider, which may have any name.
    Raises KeyConflict where the key stands for other content, InputRefused where there is no input, it
    cannot be read or holds what this provider cannot be told, StoreError where the store (or the
    input's) cannot be reached.
    """
    spec = call.spec
    manifest = read_manifest_or_none(store, spec.tenant, spec.key)
    if manifest is None or (spec.input_url is not None and not _accepted_now(store, manifest, call)):
        manifest = _accept(store, spec, spool, stop, dialect)
    _check_same(manifest, spec)
    if dialect not in {None, spec.provider}:
        _check_expressible(store, manifest, str(dialect), stop)
    _check_endpoints(provider, manifest)
    return _prepared(store, provider, manifest, spec)


def _accepted_now(store: Store, manifest: JobManifest, call: PrepareJob) -> bool:
    """Whether an earlier attempt of this very activity accepted the input, whole.

    An older manifest says nothing about what the input_url holds today: the input is read again, and
    other content under the same key is refused (SU-10).
    """
    return datetime.fromisoformat(manifest.accepted_at) >= call.accepted_at and not missing_objects(store, manifest)


def _accept(store: Store, spec: JobSpec, spool: Path, stop: threading.Event, dialect: str | None) -> JobManifest:
    if spec.input_url is None:
        raise InputRefused(
            f"job {spec.key!r} of tenant {spec.tenant!r} has no input: nothing was stored for it and no input_url is given",
            hint="submit it with the client or the command line, or give an input_url",
        )
    spool.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=spool, prefix="intake-") as folder:
        try:
            spooled = spool_requests(
                _pieces(spec.input_url, stop),
                Path(folder) / "spool",
                provider=spec.provider,
                dialect=dialect,
                model=spec.model,
                endpoint=spec.endpoint,
                heartbeat=lambda _lines: check(stop),
            )
        except ObjectMissing as error:
            raise InputRefused(
                f"input_url {spec.input_url}: {error}", hint="check the URL; the worker reads it"
            ) from error
        except UsageError as error:
            raise InputRefused(f"input_url {spec.input_url}: {error}", hint=error.hint) from error
        return accept_job(
            store,
            spooled,
            tenant=spec.tenant,
            key=spec.key,
            owner=deployment_owner(store),
            source=spec.input_url,
            heartbeat=lambda _segments: check(stop),
        )


def _check_expressible(store: Store, manifest: JobManifest, dialect: str, stop: threading.Event) -> None:
    """Requests that a client accepted without knowing what kind of provider stands behind its name."""
    rules = rules_of(dialect)
    if rules.check is None:
        return
    groups = manifest.groups
    for request in SegmentReader(store, manifest).requests():
        check(stop)
        group = groups[request.group]
        try:
            rules.check(group.endpoint, orjson.loads(request.body), group.model)
        except (Inexpressible, orjson.JSONDecodeError) as error:
            raise InputRefused(
                f"line {request.line}: cannot be said to {manifest.provider}, which is of kind {dialect}: {error}",
                hint="mend the line and submit with a key of its own",
            ) from error


def _check_endpoints(provider: BatchProvider, manifest: JobManifest) -> None:
    """A batch at an endpoint that the provider has none for would be refused whole, after its upload."""
    for group in manifest.groups:
        endpoints = facts_about(provider, group.model).endpoints
        if group.endpoint not in endpoints.value and not endpoints.unsure:
            raise InputRefused(
                f"{manifest.provider} takes no {group.endpoint} in batches: it takes {', '.join(endpoints.value)}",
                hint="use another provider, or say in a catalog of your own that it does (`groupage catalog`)",
            )


def _pieces(url: str, stop: threading.Event) -> Iterator[bytes]:
    for piece in stream_url(url):
        check(stop)
        yield piece


def _check_same(manifest: JobManifest, spec: JobSpec) -> None:
    """The job that was accepted under this key must be the one that is meant (SU-10)."""
    if spec.fingerprint is not None and spec.fingerprint != manifest.fingerprint:
        raise KeyConflict(
            f"job {spec.key!r} of tenant {spec.tenant!r} was accepted {manifest.accepted_at} with other content",
            hint="give the new content a key of its own",
        )
    if spec.provider != manifest.provider:
        raise KeyConflict(
            f"job {spec.key!r} of tenant {spec.tenant!r} was accepted for provider {manifest.provider!r}, "
            f"not {spec.provider!r}",
            hint="give it another key for another provider",
        )


def _prepared(store: Store, provider: BatchProvider, manifest: JobManifest, spec: JobSpec) -> PreparedJob:
    groups = manifest.groups
    costs = {route: _estimate(provider, manifest, route, spec.policy) for route in (Route.batch, Route.sync)}
    unpriced = list({id(group): group for _, _, without in costs.values() for group in without}.values())
    problems = islice(SegmentReader(store, manifest).rejected(), PROBLEMS_SHOWN)
    return PreparedJob(
        job=JobRef(
            tenant=manifest.tenant,
            key=manifest.key,
            token=manifest.token,
            provider=manifest.provider,
            profile=spec.profile,
        ),
        fingerprint=manifest.fingerprint,
        requests=manifest.requests,
        rejected=manifest.rejected,
        problems=[problem.one_line()[:_PROBLEM_MAX] for problem in problems],
        refused=spec.policy.on_invalid == "refuse" and manifest.rejected > 0,
        bytes=sum(group.bytes for group in groups),
        tokens=sum(group.tokens for group in groups),
        max_output_tokens=sum(group.max_output_tokens for group in groups),
        estimated_cost_usd=costs[Route.batch][0],
        estimated_sync_cost_usd=costs[Route.sync][0],
        cost_estimated=any(estimated for _, estimated, _ in costs.values()),
        unpriced_requests=sum(group.requests for group in unpriced),
        unpriced_models=list(dict.fromkeys(group.model[:_MODEL_MAX] for group in unpriced))[:_UNPRICED_SHOWN],
        unpriced=_by_model(unpriced),
        model=groups[0].model if len({group.model for group in groups}) == 1 else "",
        rounds=count_rounds(store, manifest.tenant, manifest.key),
        min_requests=max((provider.limits(group.endpoint, group.model).min_requests for group in groups), default=1),
    )


def _by_model(groups: list[RequestGroup]) -> dict[str, int]:
    """Requests of the first _UNPRICED_SHOWN models."""
    counts: dict[str, int] = {}
    for group in groups:
        model = group.model[:_MODEL_MAX]
        if model in counts or len(counts) < _UNPRICED_SHOWN:
            counts[model] = counts.get(model, 0) + group.requests
    return counts


def _estimate(
    provider: BatchProvider, manifest: JobManifest, route: Route, policy: JobPolicy
) -> tuple[Decimal | None, bool, list[RequestGroup]]:
    """(USD if every request uses its whole output limit, whether a guess is in it, groups without a price).

    None where no group's model has a price. A long request's higher tier is not reckoned with: sums
    are all that is known here. What is too few for a batch is reckoned by sync, which is where it goes if it may.
    """
    book = PriceBook(manifest.provider, facts=partial(facts_about, provider))
    total, estimated = 0, False
    unpriced: list[RequestGroup] = []
    for group in manifest.groups:
        too_few = group.requests < provider.limits(group.endpoint, group.model).min_requests
        if too_few and not policy.escalate:
            continue
        price = book.price(group.model, Route.sync if too_few else route)
        if price is None:
            estimated = True
            unpriced.append(group)
            continue
        estimated = estimated or price.estimated
        total += group.tokens * price.input + group.max_output_tokens * price.output + group.requests * price.request
    known = len(unpriced) < len(manifest.groups) or not manifest.groups
    return (to_usd(total) if known else None), estimated, unpriced
