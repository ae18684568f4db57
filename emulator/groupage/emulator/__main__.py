"""`python -m groupage.emulator`: see docs/emulator.md."""

import argparse
import sys
from pathlib import Path

from groupage.emulator.faults import BadPlan, load_plan
from groupage.emulator.installed import missing_package
from groupage.emulator.settings import Settings, Turnaround, parse_turnaround
from groupage.emulator.state import StateInUse
from groupage.schemas import parse_duration


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        # What a ValueError says is not shown by argparse.
        raise argparse.ArgumentTypeError(str(error)) from error


def _turnaround(text: str) -> Turnaround:
    try:
        return parse_turnaround(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parser() -> argparse.ArgumentParser:
    """All options; defaults are those of `Settings`."""
    options = argparse.ArgumentParser(
        prog="python -m groupage.emulator", description="Provider batch APIs on loopback."
    )
    add = options.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0, help="0: a free one")
    add("--state", type=Path, required=True, help="directory; start again on it to go on")
    add("--faults", type=Path, help="fault plan, JSON; 'demo' for the one in the package")
    add(
        "--turnaround",
        type=_turnaround,
        default=parse_turnaround("5s"),
        help="5s, uniform:10s,2m, lognormal:1h,0.8",
    )
    add("--speed", type=float, default=1.0, help="how fast the emulator's clock runs")
    add("--seed", type=int, default=1)
    add("--answer-bytes", type=int, default=320)
    add("--order", choices=("shuffled", "input", "reversed"), default="shuffled", help="of result lines")
    add("--cancel-takes", type=_seconds, default=1.0, metavar="DURATION")
    add("--max-requests", type=int, help="of one batch, instead of the provider's own limit")
    add("--max-batch-bytes", type=int, default=Settings.max_batch_bytes)
    add("--max-embedding-inputs", type=int, default=Settings.max_embedding_inputs, help="of one batch, at OpenAI")
    add("--max-file-bytes", type=int, default=Settings.max_file_bytes)
    add("--max-files", type=int)
    add("--file-processing", type=_seconds, default=Settings.file_processing_s, metavar="DURATION", help="at Azure")
    add("--max-enqueued-tokens", type=int)
    add("--min-records", type=int, default=Settings.min_records, help="of one Bedrock job")
    add("--max-jobs", type=int, help="live jobs of one account (Bedrock and Vertex: and model)")
    add("--batch-deployments", default="", metavar="NAMES", help="at Azure: those that take no single requests")
    add("--sync-rpm", type=int)
    add("--sync-latency", type=_seconds, default=0.0, metavar="DURATION")
    add("--api-key", help="refuse all other keys")
    return options


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    missing = missing_package()
    if missing is not None:
        sys.stderr.write(f"groupage.emulator: {missing} is not installed\n  → pip install 'groupage[emulator]'\n")
        return 2
    from groupage.emulator.server import serve

    settings = Settings(
        state=given.state.absolute(),
        host=given.host,
        port=given.port,
        turnaround=given.turnaround,
        speed=given.speed,
        seed=given.seed,
        answer_bytes=given.answer_bytes,
        order=given.order,
        cancel_s=given.cancel_takes,
        max_requests=given.max_requests,
        max_batch_bytes=given.max_batch_bytes,
        max_embedding_inputs=given.max_embedding_inputs,
        max_file_bytes=given.max_file_bytes,
        max_files=given.max_files,
        file_processing_s=given.file_processing,
        max_enqueued_tokens=given.max_enqueued_tokens,
        min_records=given.min_records,
        max_jobs=given.max_jobs,
        batch_deployments=frozenset(filter(None, given.batch_deployments.split(","))),
        sync_rpm=given.sync_rpm,
        sync_latency_s=given.sync_latency,
        api_key=given.api_key,
    )
    try:
        serve(settings, load_plan(plan_path(given.faults)) if given.faults else None)
    except (BadPlan, StateInUse, OSError) as error:
        sys.stderr.write(f"groupage.emulator: {error}\n")
        return 2
    return 0


def plan_path(given: Path) -> Path:
    return Path(__file__).parent / "demo_faults.json" if str(given) == "demo" else given


if __name__ == "__main__":
    sys.exit(main())
