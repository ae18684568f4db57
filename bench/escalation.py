"""The escalation policy in simulation: deadlines missed, and how much of the batch discount is kept.

    python -m bench.escalation --jobs 10000 --seed 1

Each job draws its size, rate limit, deadline (tight to loose) and what its provider does: turnarounds
from a heavy-tailed mixture, expiry after 24 h with part of the answers, stalls, bursty progress, cancels
that settle late or not in time, sync that is slower than reckoned. Our policy is run by the functions
that the workflows call. Beside it: sync at once, batch until half the time has passed, and a clairvoyant
that knows every turnaround and sends by sync, from the start, just what no batch will answer.

Discount kept: money saved against all-sync, as a share of what all-batch would have saved; double
payments count against it. A deadline is missed if a request is unanswered at it, or the end comes later.
"""

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from groupage.schemas import ErrorClass, FailureAction, JobPolicy, Route
from groupage.workflows.policy.escalation import (
    Clock,
    Evidence,
    Work,
    choose_route,
    latest_escalation_s,
    plan_escalation,
    reserves,
)
from groupage.workflows.policy.estimate import remember
from groupage.workflows.policy.failures import decide_actions
from groupage.workflows.policy.pace import sync_rate

WINDOW_S = 86_400.0
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to one provider batch, counted from its submission."""

    turnaround_s: float
    answers: float
    """Share of requests answered when it ends by itself."""
    bursts: float
    """Exponent of the progress: 1 steady, above 1 late."""
    stalls_at: float
    """Share at which the counts freeze until the end; 1: they do not."""
    settle_s: float
    """From the cancel to the end; may be beyond the policy's bound."""

    def done(self, elapsed_s: float) -> float:
        """Share of requests answered after `elapsed_s`."""
        if elapsed_s >= self.turnaround_s:
            return self.answers
        if elapsed_s <= 0:
            return 0.0
        return min(self.answers * math.pow(elapsed_s / self.turnaround_s, self.bursts), self.stalls_at)


@dataclass(frozen=True, slots=True)
class Trial:
    """One job and its surroundings. Sizes in requests, times in seconds."""

    policy: JobPolicy
    span_s: float
    sizes: tuple[int, ...]
    seed: int
    sync_slowness: float
    sync_extra_s: float
    work_share: float
    """How much of the reserves for harvest, planning and merge is really used."""

    @property
    def requests(self) -> int:
        return sum(self.sizes)

    @property
    def enough(self) -> bool:
        """Whether sync can take all of it in time: only then can a deadline be promised."""
        return latest_escalation_s(self.policy, self.span_s, Work(self.requests, self.requests)) >= 0

    def fate(self, round_: int, shard: int) -> Fate:
        return draw_fate(random.Random(f"{self.seed}-{round_}-{shard}"))

    def sync_s(self, requests: float) -> float:
        return requests / sync_rate(self.policy) * self.sync_slowness + self.sync_extra_s if requests >= 1 else 0.0

    def overhead_s(self) -> tuple[float, float, float]:
        """(harvest, plan, finalize) as they really are."""
        r = reserves(self.policy, self.span_s, self.requests)
        return r.harvest_s * self.work_share, r.plan_s * self.work_share, r.finalize_s * self.work_share


@dataclass(slots=True)
class Ending:
    """How a job ended. `batch` and `sync` are requests answered each way, `twice` those paid for by batch in vain."""

    finished_s: float
    batch: float
    sync: float
    twice: float = 0.0
    unanswered: float = 0.0

    def missed(self, trial: Trial) -> bool:
        return self.unanswered >= 1 or self.finished_s > trial.span_s

    def discount(self, trial: Trial) -> float:
        """1: everything at batch price; 0: all-sync price; below: dearer than that."""
        return (self.batch - self.twice) / trial.requests if not self.unanswered else self.batch / trial.requests


def draw_fate(rng: random.Random) -> Fate:
    kind = rng.random()
    if kind < 0.70:
        turnaround = rng.lognormvariate(math.log(2_400), 1.0)
    elif kind < 0.93:
        turnaround = rng.lognormvariate(math.log(6 * 3_600), 0.7)
    else:
        turnaround = NEVER
    expires = turnaround >= WINDOW_S
    stalls_at = rng.uniform(0.0, 0.98) if kind >= 0.97 or rng.random() < 0.03 else 1.0
    settle = rng.lognormvariate(math.log(150), 0.9) if rng.random() < 0.96 else rng.uniform(1_800, 20_000)
    return Fate(
        turnaround_s=min(turnaround, WINDOW_S),
        answers=min(rng.uniform(0.0, 1.0), stalls_at) if expires else 1.0,
        bursts=rng.choice((0.7, 1.0, 1.0, 2.0, 4.0)),
        stalls_at=stalls_at,
        settle_s=settle,
    )


def draw_trial(rng: random.Random) -> Trial:
    span = math.exp(rng.uniform(math.log(60), math.log(48 * 3_600)))
    shards = rng.choice((1, 1, 1, 2, 4, 8, 20))
    rpm = rng.choice((60, 600, 600, 3_000, 10_000))
    policy = JobPolicy(sync_rpm=rpm, sync_concurrency=rng.choice((32, 100, 400)))
    most = max(10.0, sync_rate(policy) * span * rng.choice((0.02, 0.1, 0.3, 0.5, 1.5)))
    total = max(shards, int(math.exp(rng.uniform(math.log(10), math.log(most)))) if most > 10 else 10)
    size = total // shards
    return Trial(
        policy=policy,
        span_s=span,
        sizes=(size,) * (shards - 1) + (total - size * (shards - 1),),
        seed=rng.getrandbits(48),
        sync_slowness=rng.uniform(0.8, 1.45),
        sync_extra_s=rng.uniform(0.3, 1.0) * reserves(policy, span, total).plan_s * 0.3,
        work_share=rng.uniform(0.2, 0.95),
    )


def _sync_rest(trial: Trial, start_s: float, rest: float, batch: float, twice: float = 0.0) -> Ending:
    """Send `rest` by sync from `start_s` on, as far as it goes until the merge has to begin."""
    _, plan_s, finalize_s = trial.overhead_s()
    until_s = trial.span_s - reserves(trial.policy, trial.span_s, trial.requests).finalize_s
    begin_s = start_s + (plan_s if rest >= 1 else 0.0)
    needed_s = trial.sync_s(rest)
    # Calls that would end after the merge has to begin are not made: they stay unanswered.
    possible = rest if begin_s + needed_s <= until_s else max(0.0, until_s - begin_s) / max(needed_s, 1e-9) * rest
    end_s = min(begin_s + needed_s, max(begin_s, until_s))
    return Ending(end_s + finalize_s, batch, possible, twice, rest - possible)


def _stop(trial: Trial, now_s: float, batches: Sequence[tuple[float, int, Fate]]) -> tuple[float, float, float]:
    """Cancel all running batches: (when they are harvested, requests answered, requests answered too late)."""
    r = reserves(trial.policy, trial.span_s, trial.requests)
    harvest_s, _, _ = trial.overhead_s()
    answered = late = 0.0
    settled_s = now_s
    for start_s, size, fate in batches:
        end_s = min(start_s + fate.turnaround_s, now_s + fate.settle_s)
        done = math.floor(size * fate.done(end_s - start_s))
        if end_s - now_s > r.settle_s:
            settled_s, late = now_s + r.settle_s, late + done
        else:
            settled_s, answered = max(settled_s, end_s), answered + done
    return settled_s + (harvest_s if batches else 0.0), answered, late


@dataclass(slots=True)
class _Round:
    batches: list[tuple[float, int, Fate]]
    answered: float = 0.0
    rest: float = 0.0
    harvested: set[int] = field(default_factory=set)


def ours(trial: Trial) -> Ending:
    """The workflow's loop, over the policy's functions."""
    policy, span = trial.policy, trial.span_s
    total = trial.requests
    now, batch, remainder, sent = 0.0, 0.0, float(total), 0
    turnarounds: list[float] = []
    sizes = list(trial.sizes)
    while True:
        route = choose_route(policy, Clock(span, now), Work(total, math.ceil(remainder)), turnarounds)
        if sent:
            counts = {ErrorClass.expired: math.ceil(remainder)}
            action = decide_actions(
                counts,
                route=route or Route.sync,
                rounds_sent=sent,
                rounds_planned=sent,
                sync_rounds=0,
                max_rounds=policy.max_rounds,
                escalate=policy.escalate,
            )[ErrorClass.expired]
            route = Route.batch if route and action is FailureAction.resubmit else Route.sync
        if route is not Route.batch:
            return _sync_rest(trial, now, remainder, batch)
        this = _Round([(now, size, trial.fate(sent, i)) for i, size in enumerate(sizes)])
        sent += 1
        now, escalated, late = _wait(trial, this, now, remainder, turnarounds)
        batch, remainder = batch + this.answered, remainder - this.answered
        if escalated:
            return _sync_rest(trial, now, remainder, batch, late)
        for _, _, fate in this.batches:
            turnarounds = remember(turnarounds, fate.turnaround_s) if fate.answers == 1.0 else turnarounds
        if remainder < 1:
            return Ending(now + trial.overhead_s()[2], batch, 0.0)
        sizes = [math.ceil(remainder)]


def _wait(
    trial: Trial, this: _Round, now: float, remainder: float, turnarounds: Sequence[float]
) -> tuple[float, bool, float]:
    """Wait for the round: (now, whether it was escalated, requests answered too late). Fills in `this.answered`."""
    policy, span, total = trial.policy, trial.span_s, trial.requests
    started = now
    look_at = now
    while True:
        for i, (start_s, size, fate) in enumerate(this.batches):
            if i not in this.harvested and start_s + fate.turnaround_s <= now:
                this.harvested.add(i)
                this.answered += math.floor(size * fate.answers)
        running = [b for i, b in enumerate(this.batches) if i not in this.harvested]
        if not running:
            return now, False, 0.0
        if now >= look_at:
            completed = sum(math.floor(size * fate.done(now - start_s)) for start_s, size, fate in running)
            evidence = Evidence(turnarounds, now - started, completed / sum(size for _, size, _ in running))
            left = max(0, math.ceil(remainder - this.answered))
            plan = plan_escalation(policy, Clock(span, now), Work(total, left), evidence)
            if plan.escalate:
                now, answered, late = _stop(trial, now, running)
                this.answered += answered
                return now, True, late
            look_at = max(plan.look_at_s, now + 1e-3)
        now = min(look_at, *(s + f.turnaround_s for s, _, f in running))


def sync_at_once(trial: Trial) -> Ending:
    return _sync_rest(trial, 0.0, float(trial.requests), 0.0)


def half_the_time(trial: Trial) -> Ending:
    """Batch first; whatever is unanswered at half the span goes by sync. Expired batches are not sent again."""
    half = trial.span_s / 2.0
    batches = [(0.0, size, trial.fate(0, i)) for i, size in enumerate(trial.sizes)]
    ended = [(size, fate) for _, size, fate in batches if fate.turnaround_s <= half]
    batch = float(sum(math.floor(size * fate.answers) for size, fate in ended))
    running = [b for b in batches if b[2].turnaround_s > half]
    if not running and batch >= trial.requests:
        return Ending(max(f.turnaround_s for _, f in ended) + trial.overhead_s()[2], batch, 0.0)
    now, answered, late = _stop(trial, half, running)
    return _sync_rest(trial, now, trial.requests - batch - answered, batch + answered, late)


def clairvoyant(trial: Trial) -> Ending:
    """Knows what each first batch will have answered in time, and sends only the others by sync, from the start."""
    harvest_s, _, finalize_s = trial.overhead_s()
    last = trial.span_s - harvest_s - finalize_s
    batch = 0.0
    for i, size in enumerate(trial.sizes):
        fate = trial.fate(0, i)
        first = math.floor(size * fate.done(last))
        # What the first batch leaves at its end goes into a second one: its fate is known as well.
        second = math.floor((size - first) * trial.fate(1, 0).done(last - fate.turnaround_s))
        batch += first + second
    rest = trial.requests - batch
    ending = _sync_rest(trial, 0.0, rest, batch)
    return Ending(min(ending.finished_s, trial.span_s), ending.batch, ending.sync, 0.0, ending.unanswered)


STRATEGIES: dict[str, Callable[[Trial], Ending]] = {
    "ours": ours,
    "sync at once": sync_at_once,
    "batch until half": half_the_time,
    "clairvoyant": clairvoyant,
}

SPANS: tuple[tuple[str, float], ...] = (
    ("up to 15 min", 900.0),
    ("to 2 h", 7_200.0),
    ("to 12 h", 43_200.0),
    ("to 48 h", NEVER),
)


@dataclass(slots=True)
class Row:
    """Sums over the jobs of one span and strategy, where sync capacity suffices."""

    jobs: int = 0
    missed: int = 0
    discount: float = 0.0
    twice: float = 0.0
    answered_short: float = 0.0
    jobs_short: int = 0


def simulate(jobs: int, seed: int) -> dict[str, dict[str, Row]]:
    """Strategy -> span -> sums. `answered_short` is for jobs whose sync capacity does not suffice."""
    rng = random.Random(seed)
    table = {name: {label: Row() for label, _ in SPANS} for name in STRATEGIES}
    for _ in range(jobs):
        trial = draw_trial(rng)
        label = next(label for label, longest in SPANS if trial.span_s <= longest)
        for name, strategy in STRATEGIES.items():
            ending = strategy(trial)
            row = table[name][label]
            if trial.enough:
                row.jobs += 1
                row.missed += ending.missed(trial)
                row.discount += ending.discount(trial)
                row.twice += ending.twice / trial.requests
            else:
                row.jobs_short += 1
                row.answered_short += 1.0 - ending.unanswered / trial.requests
    return table


def show(table: dict[str, dict[str, Row]]) -> str:
    head = (
        f"{'deadline':<14}{'strategy':<18}{'jobs':>7}{'missed':>8}{'discount kept':>15}{'paid twice':>12}"
        f"{'| too little sync: jobs':>25}{'answered':>10}"
    )
    lines = [head]
    for label, _ in SPANS:
        for name in STRATEGIES:
            row = table[name][label]
            jobs, short = max(1, row.jobs), max(1, row.jobs_short)
            lines.append(
                f"{label:<14}{name:<18}{row.jobs:>7}{row.missed:>8}{row.discount / jobs:>15.1%}{row.twice / jobs:>12.2%}"
                f"{row.jobs_short:>25}{row.answered_short / short:>10.1%}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.perf_counter()
    table = simulate(arguments.jobs, arguments.seed)
    print(show(table))
    missed = sum(row.missed for row in table["ours"].values())
    jobs = sum(row.jobs for row in table["ours"].values())
    print(f"\nours: {missed} deadlines missed in {jobs} jobs whose sync capacity suffices")
    print(f"{arguments.jobs} jobs, seed {arguments.seed}, {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
