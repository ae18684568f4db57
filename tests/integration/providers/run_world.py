"""`groupage run --provider ...` as its users run it, with trouble on the way, and what has to hold in the end."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import orjson
from cli_world import Commands, read_results
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused
from job_world import CHAT

REQUESTS = 200
TROUBLE: list[dict[str, Any]] = [
    {"kind": "http", "status": 429, "share": 0.05, "times": 1},
    {"kind": "http", "status": 500, "share": 0.05, "times": 1},
    {"kind": "missing", "match": "question number 11 ?", "times": 1},
]
"""What befalls requests anywhere."""
DAMAGED = {"kind": "malformed", "match": "question number 7 ?", "times": 1}
LATER: list[dict[str, Any]] = [
    {"call": "batches.retrieve", "action": "error", "status": 503, "every": 4},
    {"call": "sync", "action": "error", "status": 429, "every": 7},
]
"""What befalls calls once there is a batch."""


@contextmanager
def commands_at(
    folder: Path, variables: Callable[[str], Mapping[str, str]], *, cleared: Iterable[str] = (), **emulator: Any
) -> Iterator[Commands]:
    """With an emulator of these options; in the end nothing that they started runs on."""
    with EmulatorProcess(folder / "emulator", **emulator) as process:
        made = Commands(folder, process)
        for name in cleared:
            made.environment.pop(name, None)
        made.environment |= variables(process.base_url)
        yield made
        made.stop_all()
        stop_if_unused(made.state_dir)
        assert not is_running(ServerFiles.of(made.state_dir))


def line_of(n: int, body: dict[str, Any], url: str = CHAT) -> dict[str, Any]:
    return {"custom_id": f"r{n}", "method": "POST", "url": url, "body": body}


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def run(commands: Commands, source: Path, provider: str, *options: str, poll: str = "500ms") -> CompletedProcess[str]:
    """To `out.jsonl` beside the source."""
    return commands.call(
        "run", source, "-o", source.with_name("out.jsonl"), "--provider", provider, "--poll", poll,
        "--deadline", "10m", "--json", *options, timeout_s=200,
    )  # fmt: skip


def all_answered_once(
    commands: Commands, done: CompletedProcess[str], output: Path, provider: str, text: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Every request has its own answer, none was answered twice, and no batch is left; the results."""
    results = read_results(output)
    assert [result for result in results if result["outcome"] != "succeeded"] == [], done.stderr
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"succeeded": len(results)}
    assert [result["id"] for result in results] == [f"r{n}" for n in range(REQUESTS)]
    for n, result in enumerate(results):
        assert (result["text"], result["provider"]) == (text(n), provider)
    assert commands.emulator.ledger()["questions_answered_more_than_once"] == 0
    assert commands.emulator.status()["batches_live"] == 0
    return results
