"""One lane: its own Temporal, provider, store and worker, and one run after the other on them."""

import asyncio
import contextlib
import random
import shutil
import signal
import socket
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from groupage.schemas.activity_calls import RUN_SYNC_SHARD
from groupage.schemas.ids import job_workflow_id
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.service import RPCError

from tests.chaos.gather import gather, workflows_of
from tests.chaos.impatience import Stuck, pass_the_timeout
from tests.chaos.points import (
    ASKS_PROVIDER,
    LOOK_EVERY_S,
    LOOK_OFTEN_S,
    PASSES_QUICKLY,
    REACHED,
    JobFiles,
    Moment,
    worth_asking,
)
from tests.chaos.processes import Child, Emulator, HarnessError, Zygote
from tests.chaos.provider import Provider
from tests.chaos.scenario import TENANT, Kill, Point, Scenario, Victim
from tests.chaos.sites import Deployed, Embedded, Site, Surroundings
from tests.chaos.store_proxy import StoreProxy
from tests.chaos.verify import Verdict, verify
from tests.side_by_side.providers import Provider as Record
from tests.side_by_side.servers import Servers, Stores

RUN_WITHIN_S = 240.0
"""No run may take longer, on a slow machine either: an escalation takes 25 s, two lost workflow tasks 10 s each."""
LOST_TASK_S = 6.0
LOST_SYNC_S = 15.0
"""A task that a killed server had handed out, but that no worker got, is given up after this."""


@dataclass(slots=True)
class Struck:
    """What became of one kill. `victims`: who was killed; `hit`: the point was there when the victims were stopped."""

    kill: Kill
    victims: tuple[Victim, ...]
    done: bool
    hit: bool


@dataclass(slots=True)
class RunReport:
    scenario: Scenario
    verdict: Verdict
    seconds: float
    struck: list[Struck] = field(default_factory=list)
    client_starts: int = 0
    gave_up: int = 0
    timeouts_passed: int = 0
    trouble: str = ""
    """Why the harness could not finish the run; counts as a failure."""


@dataclass(frozen=True, slots=True)
class Around:
    """What all lanes of a series share: the provider, its object stores, and the key to both."""

    provider: Record
    stores: Stores
    api_key: str


class Lane:
    """`directory` is the lane's own; everything of it is started by `start` and ended by `stop`."""

    def __init__(self, number: int, directory: Path, around: Around, *, binary: str) -> None:
        self.number = number
        self.directory = directory
        self.directory.mkdir(parents=True)
        self.api_key = around.api_key
        self._around = around
        self._emulator = Emulator(
            directory,
            ["--turnaround", "uniform:500ms,1200ms", "--cancel-takes", "300ms"],
            dict(around.provider.emulator) | ({"api_key": self.api_key} if around.provider.keyed else {}),
            around.stores.variables(),
        )
        self._zygote = Zygote(directory, around.provider.adapter)
        self._proxy = StoreProxy(around.stores.endpoint) if around.stores.endpoint else None
        self._binary = binary
        self._provider: Provider | None = None
        self._sites: dict[bool, Site] = {}
        self.around = Surroundings(directory, self._zygote)

    @property
    def provider(self) -> Provider:
        assert self._provider is not None
        return self._provider

    async def start(self) -> None:
        await asyncio.gather(self._emulator.start(), self._zygote.start())
        record, stores = self._around.provider, self._around.stores
        if self._proxy is not None:
            await self._proxy.start()
        # One object store serves all lanes: a prefix each.
        servers = Servers(self._emulator.root, self.api_key, stores, f"lane-{self.number}/")
        self._provider = Provider(record, servers, self._proxy)
        if self._proxy is not None:
            servers = replace(servers, stores=stores.behind(self._proxy.endpoint))
        self.around.variables = record.variables(servers) | record.waits

    async def stop(self) -> None:
        if self._provider is not None:
            self._provider.close()
        # Workers and clients first: a client would start an embedded server again.
        await self._zygote.stop()
        await asyncio.gather(self._emulator.stop(), *(site.stop() for site in self._sites.values()))
        if self._proxy is not None:
            await self._proxy.stop()

    async def site(self, *, embedded: bool) -> Site:
        """Started when it is first asked for."""
        if embedded not in self._sites:
            site: Site = Embedded(self.around) if embedded else Deployed(self.around, self._binary)
            self._sites[embedded] = site
            await site.start(random.Random(self.number))
        return self._sites[embedded]

    async def run(self, scenario: Scenario) -> RunReport:
        began = time.monotonic()
        run = _Run(self, await self.site(embedded=scenario.embedded), scenario)
        report = RunReport(scenario, Verdict(), 0.0)
        try:
            await asyncio.wait_for(run.play(), RUN_WITHIN_S + 60)
            report.verdict = verify(await run.evidence())
        except (HarnessError, RPCError, OSError, RuntimeError, TimeoutError) as error:
            report.trouble = f"{type(error).__name__}: {error}"
        finally:
            await run.end()
        report.struck, report.client_starts = run.struck, run.client_starts
        report.timeouts_passed, report.gave_up = run.timeouts_passed, run.gave_up
        report.seconds = time.monotonic() - began
        return report

    def forget(self, scenario: Scenario) -> None:
        """Delete the traces of a good run."""
        site = self._sites[scenario.embedded]
        shutil.rmtree(site.store / TENANT / "jobs" / scenario.key, ignore_errors=True)
        shutil.rmtree(self.directory / scenario.key, ignore_errors=True)


class _Run:
    """One scenario being played."""

    def __init__(self, lane: Lane, site: Site, scenario: Scenario) -> None:
        self.lane, self.site, self.scenario = lane, site, scenario
        self.folder = lane.directory / scenario.key
        self.output = self.folder / "out.jsonl"
        self.files = JobFiles(site.store / TENANT / "jobs" / scenario.key)
        self.client: Child | None = None
        self.tidier: Child | None = None
        self.client_starts = 0
        self.gave_up = 0
        self._reviving = False
        self._said = 0
        self.struck: list[Struck] = []
        self.timeouts_passed = 0
        self._draw = random.Random(f"{scenario.seed}/{scenario.number}/run")
        self._helpers: list[asyncio.Task[int]] = []
        self._background: list[asyncio.Task[None]] = []
        self._give_up_at = time.monotonic() + RUN_WITHIN_S

    async def play(self) -> None:
        lane, scenario = self.lane, self.scenario
        self.folder.mkdir()
        (self.folder / "in.jsonl").write_bytes(scenario.input)
        await lane.provider.begin(scenario.plan)
        await self._start_client()
        self._background = [asyncio.create_task(self._supervise())]
        if scenario.cancel_after_s is not None:
            self._background.append(asyncio.create_task(self._cancel_a_batch(scenario.cancel_after_s)))
        for kill in scenario.kills:
            self.struck.append(await self._strike(kill))
        while await self._goes_on():
            assert self.client is not None
            await self.client.wait(self._left_s())
            if time.monotonic() > self._give_up_at:
                return

    def _left_s(self) -> float:
        return max(0.1, self._give_up_at - time.monotonic())

    async def evidence(self) -> Any:
        assert self.client is not None
        if await self.something_left():
            self.tidier = await self.site.tidy()
        return await gather(
            await self.site.temporal(),
            self.lane.provider,
            self.scenario,
            job_directory=self.files.root,
            output=self.output,
            stderr=self.folder / "client.err",
            exit_code=self.client.code,
            api_key=self.lane.api_key,
        )

    async def something_left(self) -> bool:
        if not self.site.has_server():
            return True
        running = any(runs for _, runs in (await workflows_of(await self.site.temporal(), self.scenario)).values())
        return running or bool((await self.lane.provider.state())["files"])

    async def end(self) -> None:
        tasks: list[asyncio.Task[Any]] = [*self._helpers, *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.timeouts_passed = sum(
            task.result() for task in self._helpers if not task.cancelled() and task.exception() is None
        )
        for child in (self.client, self.tidier):
            if child is not None and child.alive:
                child.signal(signal.SIGKILL)
                await child.wait(5)

    # Processes

    async def _start_client(self) -> None:
        scenario = self.scenario
        argv = ["run", str(self.folder / "in.jsonl"), "-o", str(self.output), "--json", *self.site.run_options]
        argv += [
            "--provider",
            scenario.provider.name,
            "--tenant",
            TENANT,
            "--key",
            scenario.key,
            "--deadline",
            scenario.deadline,
        ]
        for name, value in scenario.policy.items():
            argv += ["--policy", f"{name}={value}"]
        self.client_starts += 1
        self._said = (self.folder / "client.err").stat().st_size if self.client_starts > 1 else 0
        environment = self.site.environment()
        self.client = await self.lane.around.spawn("client", argv, self.folder / "client", environment)

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            if not self._reviving:
                self.gave_up += await self.site.supervise()

    async def _goes_on(self) -> bool:
        """Whether the client runs. One that began while the server was down says so and ends: then again."""
        assert self.client is not None
        if self.client.alive:
            return True
        server_killed = any(Victim.server in struck.victims for struck in self.struck)
        said = (self.folder / "client.err").read_bytes()[self._said :]
        if self.client.code != 1 or not server_killed or b"cannot be reached" not in said:
            return False
        self.gave_up += 1
        await self._start_client()
        return True

    async def _cancel_a_batch(self, after_s: float) -> None:
        """Cancel the first batch so long after it was created; it may have ended by then."""
        while True:
            state = await self.lane.provider.state(files=False)
            live = [batch["id"] for batch in state["batches"] if not batch["ended"]]
            if live:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(after_s)
        with contextlib.suppress(RuntimeError):
            await self.lane.provider.cancel(live[0])

    # Killing

    async def _moment(self, point: Point) -> Moment | None:
        """None: the provider cannot have anything to tell yet."""
        if point not in ASKS_PROVIDER:
            return Moment(self.files, {})
        if not worth_asking(point, self.files):
            return None
        return Moment(self.files, await self.lane.provider.state(files=point is Point.uploading))

    async def _there(self, point: Point) -> bool:
        moment = await self._moment(point)
        return moment is not None and REACHED[point](moment)

    async def _strike(self, kill: Kill) -> Struck:
        while not await self._there(kill.point):
            if not await self._goes_on() or time.monotonic() > self._give_up_at:
                return Struck(kill, (), done=False, hit=False)
            await asyncio.sleep(LOOK_OFTEN_S if kill.point in PASSES_QUICKLY else LOOK_EVERY_S)
        assert self.client is not None
        await self.client.wait(kill.delay_s)
        if not await self._goes_on():
            return Struck(kill, (), done=False, hit=False)
        victims = self.site.victims(kill.victims)
        self._reviving = True
        self._signal(victims, signal.SIGSTOP)
        hit = await self._there(kill.point)
        self._signal(victims, signal.SIGKILL)
        await self._bury_and_revive(victims, kill.pause_s)
        self._reviving = False
        return Struck(kill, victims, done=True, hit=hit)

    def _signal(self, victims: tuple[Victim, ...], number: signal.Signals) -> None:
        worker = self.site.worker_of(self.client)
        if Victim.worker in victims and worker is not None:
            worker.signal(number)
        if Victim.client in victims and self.client is not None:
            self.client.signal(number)
        if Victim.server in victims:
            self.site.signal_server(number)

    async def _bury_and_revive(self, victims: tuple[Victim, ...], pause_s: float) -> None:
        """The dead are waited for; then the server comes first, the client last."""
        worker = self.site.worker_of(self.client)
        if Victim.client in victims and self.client is not None and await self.client.wait(10) is None:
            raise HarnessError(f"client {self.client.pid} does not die")
        if Victim.worker in victims and worker is not None and await worker.wait(10) is None:
            raise HarnessError(f"worker {worker.pid} does not die")
        await asyncio.sleep(pause_s)
        if Victim.server in victims:
            await self.site.revive_server()
        if Victim.worker in victims:
            await self.site.revive_worker(self._draw)
        if Victim.client in victims and (self.client is None or self.client.code == -signal.SIGKILL):
            await self._start_client()
        if worker is not None and not worker.alive:
            self._help(_held_by(worker.pid), for_s=8)
        if Victim.server in victims:
            self._help(_handed_out_before(datetime.now(UTC)), for_s=40)

    def _help(self, stuck: Stuck, *, for_s: float) -> None:
        workflow_id = job_workflow_id(TENANT, self.scenario.key)
        self._helpers.append(asyncio.create_task(pass_the_timeout(self.site.temporal, workflow_id, stuck, for_s=for_s)))


def _held_by(pid: int) -> Stuck:
    identity = f"{pid}@{socket.gethostname()}"
    return lambda pending: pending.last_worker_identity == identity


def _handed_out_before(moment: datetime) -> Stuck:
    """Started before the server came back, and for longer than any activity of such a small job takes."""

    def stuck(pending: PendingActivityInfo) -> bool:
        limit_s = LOST_SYNC_S if pending.activity_type.name == RUN_SYNC_SHARD.name else LOST_TASK_S
        started = pending.last_started_time.ToDatetime(UTC)
        return started < moment and datetime.now(UTC) - started > timedelta(seconds=limit_s)

    return stuck
