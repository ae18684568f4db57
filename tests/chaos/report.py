"""What the runs came to, for people."""

import statistics
from collections import Counter
from collections.abc import Sequence

from tests.chaos.lane import RunReport
from tests.chaos.scenario import Kind, Point, Victim
from tests.chaos.verify import Broken


def failed(report: RunReport) -> bool:
    return bool(report.trouble or report.verdict.violations)


def one_line(report: RunReport, *, of: int) -> str:
    kills = ", ".join(
        f"{'+'.join(struck.victims or struck.kill.victims)} at {struck.kill.point}"
        + ("" if struck.hit else " (moment missed)" if struck.done else " (not reached)")
        for struck in report.struck
    )
    embedded = ", embedded" if report.scenario.embedded else ""
    verdict = "FAILED" if failed(report) else "ok"
    return f"run {report.scenario.number + 1}/{of} {verdict} {report.seconds:5.1f} s  {report.scenario.kind}{embedded}: {kills}"


def problems(report: RunReport, *, shown: int = 12) -> list[str]:
    found = [f"{violation.broken}: {violation.text}" for violation in report.verdict.violations]
    if report.trouble:
        found.append(f"harness: {report.trouble}")
    return found[:shown] + ([f"... and {len(found) - shown} more"] if len(found) > shown else [])


def table(reports: Sequence[RunReport], seconds: float) -> str:
    lines = [f"runs: {len(reports)}, failed: {sum(map(failed, reports))}, {seconds:.0f} s in all"]
    kinds = Counter(report.scenario.kind for report in reports)
    embedded = sum(report.scenario.embedded for report in reports)
    told = ", ".join(f"{kind} {kinds[kind]}" for kind in Kind)
    lines.append(f"kinds: {told}; with embedded server and worker: {embedded}")
    lines += [
        "",
        f"{'point of the kill':<18}" + "".join(f"{victim:>9}" for victim in Victim) + f"{'aimed':>9}{'hit':>7}",
    ]
    struck = [one for report in reports for one in report.struck]
    for point in Point:
        aimed = [one for one in struck if one.kill.point is point]
        if not aimed:
            continue
        done = [one for one in aimed if one.done]
        per_victim = "".join(f"{sum(victim in one.victims for one in done):>9}" for victim in Victim)
        lines.append(f"{point:<18}{per_victim}{len(aimed):>9}{sum(one.hit for one in done):>7}")
    done = [one for one in struck if one.done]
    per_victim = "".join(f"{sum(victim in one.victims for one in done):>9}" for victim in Victim)
    lines.append(f"{'all':<18}{per_victim}{len(struck):>9}{sum(one.hit for one in done):>7}")
    several = sum(len(one.victims) > 1 for one in done)
    lines += [f"kills of several processes at once: {several}; runs with two kills: {_two_kills(reports)}", ""]
    broken = Counter(violation.broken for report in reports for violation in report.verdict.violations)
    lines += [f"{kind:<42}{broken[kind]:>6}" for kind in Broken]
    lines.append(f"{'runs that the harness could not finish':<42}{sum(bool(report.trouble) for report in reports):>6}")
    gave_up, passed = sum(one.gave_up for one in reports), sum(one.timeouts_passed for one in reports)
    lines += ["", f"{'processes that found no server, started again':<50}{gave_up:>4}"]
    lines += [f"{'activities of dead workers timed out at once':<50}{passed:>4}", ""]
    counts: Counter[str] = Counter()
    for report in reports:
        counts += report.verdict.counts
    lines += [f"{name:<42}{n:>12,}" for name, n in sorted(counts.items())]
    times = sorted(report.seconds for report in reports)
    if times:
        late = times[int(0.95 * (len(times) - 1))]
        lines += ["", f"seconds a run: median {statistics.median(times):.1f}, 95 % {late:.1f}, longest {times[-1]:.1f}"]
    return "\n".join(lines)


def _two_kills(reports: Sequence[RunReport]) -> int:
    return sum(sum(one.done for one in report.struck) > 1 for report in reports)
