"""The emulator itself, without HTTP: clock, state, faults, ledger, and the work on batches.

Provider APIs are mounted beside each other on one core (`openai/` is the first): each translates its
own messages and asks the core for files, batches and answers.
"""

import asyncio
import contextlib
import hashlib
import logging
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from groupage.emulator.batch_work import check_job, finish_job
from groupage.emulator.clock import Clock, new_clock
from groupage.emulator.dialects import dialect_of
from groupage.emulator.faults import NO_FAULTS, BatchRule, FaultPlan, read_plan
from groupage.emulator.finish import FinishJob
from groupage.emulator.ledger import Ledger
from groupage.emulator.life import WINDOW_S, Batch, Checked, Done, next_change, view
from groupage.emulator.settings import Settings
from groupage.emulator.state import File, State
from groupage.emulator.strikes import Strikes
from groupage.emulator.work import ERRORS_SHOWN, line_error
from groupage.emulator.worker import Worker, WorkFailed

log = logging.getLogger("groupage.emulator")

FILE_LIFE_S = 30 * 86_400.0
"""Batch files expire after 30 days, says OpenAI's reference."""
_RETRY_S = 1.0
_SWEEP_S = 60.0


class Emulator:
    """Shared by all provider APIs. All methods run in the event loop's thread."""

    def __init__(self, settings: Settings, plan: FaultPlan | None = None) -> None:
        self.settings = settings
        self.state = State(settings.state)
        self.clock = self._restore_clock()
        self.ledger = Ledger(self.state)
        self.strikes = Strikes(self.state, self._restore_plan(plan))
        self.calls: Counter[str] = Counter()
        """HTTP calls by name since this process started."""
        self._worker = Worker()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def _restore_clock(self) -> Clock:
        saved = self.state.meta("clock")
        clock = Clock(**saved) if saved else new_clock()
        if clock.speed != self.settings.speed:
            clock.set_speed(self.settings.speed)
        self._save_clock(clock)
        return clock

    def _save_clock(self, clock: Clock) -> None:
        with self.state.commit():
            self.state.put_meta("clock", {"real": clock.real, "virtual": clock.virtual, "speed": clock.speed})

    def _restore_plan(self, plan: FaultPlan | None) -> FaultPlan:
        """A plan given at start replaces the stored one; the same plan keeps its counters."""
        saved = self.state.meta("plan")
        stored = read_plan(saved, "stored plan") if saved else NO_FAULTS
        if plan is None or plan == stored:
            return stored
        self._store_plan(plan)
        return plan

    def _store_plan(self, plan: FaultPlan) -> None:
        with self.state.commit():
            self.state.put_meta("plan", plan.model_dump(mode="json"))
            self.state.forget_rules()

    def set_plan(self, plan: FaultPlan) -> None:
        """All counters start again. Batches that exist keep the effects they were created with."""
        self._store_plan(plan)
        self.strikes.plan = plan

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._save_clock(self.clock)
        self._wake.set()

    def set_speed(self, speed: float) -> None:
        self.clock.set_speed(speed)
        self._save_clock(self.clock)
        self._wake.set()

    async def reset(self) -> None:
        """Forget files, batches, ledger and counters; keep clock and plan."""
        await self._stop_work()
        self.state.clear()
        self.ledger.reset()
        self.calls.clear()
        self.start()

    # -- files ---------------------------------------------------------------

    def new_id(self, prefix: str) -> str:
        return f"{prefix}{os.urandom(12).hex()}"

    def keep_file(
        self,
        *,
        file_id: str,
        account: str,
        filename: str,
        purpose: str,
        size: int,
        expires_s: float | None,
        lag_s: float = 0.0,
    ) -> File:
        """Record a file whose bytes are in place. Part of the caller's transaction."""
        now = self.clock.now()
        file = File(
            id=file_id,
            number=self.state.next_number("file"),
            account=account,
            filename=filename,
            purpose=purpose,
            bytes=size,
            created_at=now,
            expires_at=None if expires_s is None else now + expires_s,
            visible_from=now + lag_s,
        )
        self.state.put_file(file)
        return file

    def find_file(self, account: str, file_id: str) -> File | None:
        """None for files that do not exist, have expired, belong to others or cannot be seen yet."""
        file = self.state.files.get(file_id)
        now = self.clock.now()
        if file is None or file.account != account or now < file.visible_from:
            return None
        return None if file.expires_at is not None and now >= file.expires_at else file

    # -- batches -------------------------------------------------------------

    def new_batch(
        self,
        *,
        account: str,
        endpoint: str,
        source: File | Path,
        metadata: dict[str, str] | None,
        output_expires_s: int | None,
        lag_s: float,
        dialect: str = "openai",
        announced: int = 0,
        window_s: float = WINDOW_S,
    ) -> Batch:
        """Accept a batch: when this returns it is stored and will run.

        `source` is an uploaded file, or the path of one whose bytes came with the create call.
        """
        now = self.clock.now()
        spoken = dialect_of(dialect)
        batch_id = self.new_id(spoken.id_prefix)
        path, file_id = (source, "") if isinstance(source, Path) else (self.state.file_path(source.id), source.id)
        # A link of its own: the caller may delete the input file while the batch runs.
        os.link(path, self.state.work_path(f"{batch_id}.input"))
        with self.state.commit():
            number = self.state.next_number("batch")
            effects = [one for one in self.strikes.effects_for(metadata) if one.effect not in spoken.unknown_effects]
            override = next((one for one in effects if one.effect == "turnaround"), None)
            batch = Batch(
                id=batch_id,
                number=number,
                account=account,
                created_at=now,
                endpoint=endpoint,
                input_file_id=file_id,
                turnaround=_seconds(override) or self.settings.turnaround.of(self.settings.seed, number),
                cancel_s=self.settings.cancel_s,
                visible_from=now + lag_s,
                metadata=metadata,
                output_expires_s=output_expires_s,
                effects=[_stored(effect) for effect in effects],
                dialect=dialect,
                announced=announced,
                window_s=window_s,
            )
            self.state.put_batch(batch)
        self._wake.set()
        return batch

    def find_batch(self, account: str, batch_id: str) -> Batch | None:
        batch = self.state.batches.get(batch_id)
        if batch is None or batch.deleted or batch.account != account or self.clock.now() < batch.visible_from:
            return None
        return batch

    def delete_batch(self, batch: Batch) -> None:
        """Its results go, its page of the ledger stays; the caller has seen that it has ended."""
        with self.state.commit():
            self.state.put_batch(replace(batch, deleted=True))
            if batch.done is not None and batch.done.output_file_id is not None:
                self.state.drop_file(batch.done.output_file_id)

    def cancel_batch(self, batch: Batch) -> None:
        """Ask for cancellation, once; the caller has seen that the batch has not ended."""
        if batch.cancel_at is None:
            with self.state.commit():
                self.state.put_batch(replace(batch, cancel_at=self.clock.now()))
            self._wake.set()

    # -- work ----------------------------------------------------------------

    def start(self) -> None:
        """Begin to work on batches; needs a running event loop."""
        self._clear_leftovers()
        parts = (self._worker.warm_up(), self._work(), self._sweep())
        self._tasks = [asyncio.create_task(part) for part in parts]

    def _clear_leftovers(self) -> None:
        """Remove what a killed process left half done: uploads without an answer, bytes without a record."""
        for path in (self.settings.state / "work").iterdir():
            batch = self.state.batches.get(path.stem)
            working = batch is not None and batch.done is None and not (batch.checked and batch.checked.errors)
            if not working and not path.name.startswith("part_"):
                path.unlink()
        for path in (self.settings.state / "files").iterdir():
            if path.name not in self.state.files:
                path.unlink()

    async def _stop_work(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._worker.close()

    async def close(self) -> None:
        await self._stop_work()
        self.ledger.close()
        self.state.close()

    async def _work(self) -> None:
        """Do what is due, earliest first; sleep until something is."""
        while True:
            self._wake.clear()
            now = self.clock.now()
            due = [(next_change(batch), batch.number, batch.id) for batch in self.state.batches.values()]
            at, _, batch_id = min(due, default=(math.inf, 0, ""))
            if at > now:
                wait = None if math.isinf(at) else max(0.0, self.clock.real_seconds(at - now))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), wait)
                continue
            try:
                batch = self.state.batches[batch_id]
                await (self._check(batch) if batch.checked is None else self._finish(batch))
            except WorkFailed:
                log.exception("work on %s failed; trying again", batch_id)
                await asyncio.sleep(_RETRY_S)

    async def _check(self, batch: Batch) -> None:
        checked = Checked()
        refusals = await asyncio.to_thread(self._refusals_by_plan, batch)
        if not refusals:
            job = check_job(self.state, self.settings, batch)
            checked = Checked(**await self._worker.run(job))
            checked.errors += self._over_token_limit(batch, checked)
        else:
            checked.errors = refusals
        # Cancel may have come in meanwhile: take what is there now, not what was there before.
        with self.state.commit():
            self.state.put_batch(replace(self.state.batches[batch.id], checked=checked))
        if checked.errors:
            self._drop_work(batch)
            self.state.ledger_path(f"{batch.id}.ids").unlink(missing_ok=True)

    def _refusals_by_plan(self, batch: Batch) -> list[dict[str, Any]]:
        if batch.effect("token_limit"):
            return [self._token_limit_error(self.settings.max_enqueued_tokens or 90_000)]
        failed, refused = batch.effect("fail"), batch.effect("refuse")
        if failed:
            return [line_error(failed["code"], failed["message"], None)]
        if not refused:
            return []
        match = refused["match"].encode()
        with self.state.work_path(f"{batch.id}.input").open("rb") as source:
            lines: list[int | None] = [number for number, line in enumerate(source, 1) if match in line]
        named = lines[:ERRORS_SHOWN] if refused["named"] else lines[:1] and [None]
        return [line_error(refused["code"], refused["message"], line) for line in named]

    def _over_token_limit(self, batch: Batch, checked: Checked) -> list[dict[str, Any]]:
        limit = self.settings.max_enqueued_tokens
        if limit is None or checked.errors:
            return []
        now = self.clock.now()
        enqueued = sum(
            other.checked.tokens
            for other in self.state.batches.values()
            if other.id != batch.id
            and other.account == batch.account
            and other.checked is not None
            and other.checked.model == checked.model
            and not view(other, now).ended
        )
        return [self._token_limit_error(limit)] if enqueued + checked.tokens > limit else []

    def _token_limit_error(self, limit: int) -> dict[str, Any]:
        message = (
            f"Enqueued token limit reached. Limit: {limit:,} enqueued tokens. "
            "Please try again once some in_progress batches have been completed."
        )
        return line_error("token_limit_exceeded", message, None)

    async def _finish(self, batch: Batch) -> None:
        job = finish_job(self.state, self.settings, self.strikes.plan, batch)
        sums = await self._worker.run(job)
        self._commit_results(batch, Done(**sums), job)

    def _commit_results(self, batch: Batch, done: Done, job: FinishJob) -> None:
        """Move files into place, then one transaction. A kill between the two does the work again."""
        job.page.replace(self.state.ledger_path(f"{batch.id}.page"))
        moved: dict[str, tuple[str, int]] = {}
        for kind, path in (("output", job.output), ("error", job.errors)):
            if path.exists():
                file_id = "file-" + hashlib.blake2b(f"{batch.id}/{kind}".encode(), digest_size=12).hexdigest()
                moved[kind] = (file_id, path.stat().st_size)
                path.replace(self.state.file_path(file_id))
        with job.struck.open("rb") as lines:
            struck = [(line.split()[0].decode(), int(line.split()[1])) for line in lines]
        with self.state.commit():
            for kind, (file_id, size) in moved.items():
                self.keep_file(
                    file_id=file_id,
                    account=batch.account,
                    filename=f"{batch.id}_{kind}.jsonl",
                    purpose="batch_output",
                    size=size,
                    expires_s=batch.output_expires_s or dialect_of(batch.dialect).results_life_s,
                )
            done.output_file_id = moved["output"][0] if "output" in moved else None
            done.error_file_id = moved["error"][0] if "error" in moved else None
            self.state.count_asked(struck)
            self.state.put_batch(replace(self.state.batches[batch.id], done=done))
        self._drop_work(batch)

    def _drop_work(self, batch: Batch) -> None:
        for part in ("input", "lines", "rows", "struck", "output", "errors", "page"):
            self.state.work_path(f"{batch.id}.{part}").unlink(missing_ok=True)

    async def _sweep(self) -> None:
        """Delete the bytes of expired files now and then; they have been invisible since they expired."""
        while True:
            now = self.clock.now()
            gone = [one.id for one in self.state.files.values() if one.expires_at is not None and now >= one.expires_at]
            if gone:
                with self.state.commit():
                    for file_id in gone:
                        self.state.drop_file(file_id)
            await asyncio.sleep(_SWEEP_S)


def _seconds(rule: BatchRule | None) -> float | None:
    return rule.seconds.total_seconds() if rule and rule.seconds is not None else None


def _stored(rule: BatchRule) -> dict[str, Any]:
    return rule.model_dump(mode="json", exclude={"share", "every", "times", "nth", "tag"}) | {
        "seconds": _seconds(rule),
    }
