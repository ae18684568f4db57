"""Promise 9, end to end: a key is in no history, no store, no log and no output, though the provider quotes it."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard
from cli_world import Commands, assert_answers

KEY = "sk-proj-untold-94f1c2e8a7"
REFUSAL = "Incorrect API key provided"


def everything_under(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """All files, those of the store unpacked. Temporal's database holds all histories."""
    for path in filter(Path.is_file, directory.rglob("*")):
        content = path.read_bytes()
        if path.suffix == ".zst":
            content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        yield path, content


def test_a_key_that_is_refused_and_quoted_is_nowhere(start: Callable[..., Commands], tmp_path: Path):
    groupage = start()
    # As it comes out of a key file, and as some servers refuse one.
    groupage.environment["OPENAI_API_KEY"] = f"{KEY}\n"
    refused = {"action": "error", "status": 401, "code": "invalid_api_key", "message": f"{REFUSAL}: {KEY}."}
    groupage.emulator.set_faults({"calls": [{"call": "batches.create", "every": 1, **refused}]})
    output = tmp_path / "out.jsonl"
    running = groupage.start("run", groupage.write_input(range(5)), "-o", output, "--poll", "500ms", "--key", "job")
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if "groupage decide" in line:
            break
    assert any(REFUSAL in line for line in said), said
    groupage.emulator.set_faults({})
    assert groupage.call("decide", "job", "go_on").returncode == 0
    done = groupage.finish(running)
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(5))

    seen = [*everything_under(groupage.state_dir), (output, output.read_bytes())]
    # The search sees what it would have to find: the refusal is in the history and in the store.
    told_in = {path.name for path, content in seen if f"{REFUSAL}: [hidden]".encode() in content}
    assert "temporal.db" in told_in
    assert len(told_in) > 1, told_in
    assert [path.name for path, content in seen if KEY.encode() in content] == []
    assert KEY not in "".join(said) + done.stdout + done.stderr


def test_a_key_that_no_header_can_carry_is_refused_before_anything_starts(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start()
    groupage.environment["OPENAI_API_KEY"] = f"{KEY}\nand more"
    done: subprocess.CompletedProcess[str] = groupage.run(groupage.write_input(range(2)), tmp_path / "out.jsonl")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr
    assert "nothing was sent" in done.stderr
    assert KEY not in done.stdout + done.stderr
    asked = groupage.call("doctor")
    assert "OPENAI_API_KEY" in asked.stdout + asked.stderr
    assert KEY not in asked.stdout + asked.stderr
