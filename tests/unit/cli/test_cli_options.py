"""Options are checked, errors are words with a code, output files are whole."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from groupage.cli import entry
from groupage.cli.files import check_output, write_whole
from groupage.cli.options import JobOptions, split_key
from groupage.schemas.errors import GroupageError, InputRefused, UsageError


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GROUPAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def parse(**changed: Any) -> JobOptions:
    given: dict[str, Any] = {
        "provider": "openai",
        "profile": "default",
        "model": None,
        "endpoint": None,
        "deadline": "6h",
        "key": None,
        "tenant": "default",
        "labels": None,
        "policy": None,
    }
    return JobOptions.parse("in.jsonl", **(given | changed))


def test_options_become_a_policy() -> None:
    options = parse(
        deadline="1d12h",
        labels=["team=search", "note=a=b"],
        policy=["max_shard_requests=250", "escalate=false"],
        max_rounds=2,
        max_cost_usd=1.5,
        sync_rpm=60,
        poll="45s",
        on_invalid="skip",
    )
    assert options.deadline == timedelta(hours=36)
    assert options.labels == {"team": "search", "note": "a=b"}
    assert options.policy.max_cost_usd == Decimal("1.5")
    assert options.policy.poll == timedelta(seconds=45)
    assert (options.policy.max_rounds, options.policy.sync_rpm, options.policy.on_invalid) == (2, 60, "skip")
    assert (options.policy.max_shard_requests, options.policy.escalate) == (250, False)
    assert options.endpoint == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"deadline": "soon"}, "--deadline"),
        ({"deadline": "0s"}, "--deadline"),
        ({"deadline": "9999999d"}, "--deadline 9999999d: too long: at most 3650d"),
        ({"deadline": "1" * 400 + "d"}, "too long: at most 3650d"),
        ({"policy": ["effective_for=9999999d"]}, "--policy effective_for 9999999d: too long: at most 3650d"),
        ({"poll": "9999999d"}, "--poll 9999999d: too long: at most 3650d"),
        ({"endpoint": "/v1/images"}, "--endpoint"),
        ({"key": "a/b"}, "key"),
        ({"tenant": "T"}, "tenant"),
        ({"labels": ["team"]}, "--label"),
        ({"labels": ["a=1", "a=2"]}, "twice"),
        ({"policy": ["nothing=1"]}, "nothing"),
        ({"policy": ["safety_factor=nan"]}, "--policy safety_factor nan: Input should be a finite number"),
        ({"policy": ["max_failed_share=nan"]}, "--policy max_failed_share nan: Input should be a finite number"),
        ({"policy": ["window=many"]}, "--policy window"),
        ({"max_rounds": 0}, "--max-rounds"),
        ({"max_cost_usd": -1.0}, "--max-cost"),
        ({"poll": "often"}, "--poll"),
        ({"on_invalid": "ignore"}, "--on-invalid"),
    ],
)
def test_a_wrong_option_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(**changed)


def test_a_wrong_option_is_told_in_our_words() -> None:
    with pytest.raises(UsageError) as caught:
        parse(poll="often")
    assert "Value error" not in str(caught.value)


def test_a_key_may_be_written_with_its_tenant() -> None:
    assert split_key("default", "k") == ("default", "k")
    assert split_key("default", "t/k") == ("t", "k")
    assert split_key("default", "job/t/k") == ("t", "k")
    with pytest.raises(UsageError):
        split_key("default", "a/b/c")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["run", "--help"], 0),
        ([], 2),
        (["run"], 2),
        (["run", "in.jsonl", "--nothing"], 2),
        (["run", "in.jsonl", "--max-rounds", "two"], 2),
        (["run", "in.jsonl", "--deadline", "soon"], 2),
        (["run", "missing.jsonl"], 2),
        (["run", "in.jsonl", "-o", "/nowhere/out.jsonl"], 2),
        (["decide", "k", "perhaps"], 2),
        (["worker", "--only", "nothing"], 2),
    ],
)
def test_wrong_usage_ends_with_2_and_words(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert entry.run(arguments) == code
    said = capsys.readouterr()
    assert said.out + said.err
    assert "Traceback" not in said.err


def test_errors_tell_what_where_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    refused = InputRefused("in.jsonl: 30 lines", problems=("in.jsonl, line 3: x",), total=30, hint="mend them")
    assert entry.report(refused, as_json=False) == 2
    said = capsys.readouterr().err
    assert "line 3" in said
    assert "29 more" in said
    assert "mend them" in said
    assert entry.report(GroupageError("no"), as_json=True) == 1
    assert json.loads(capsys.readouterr().err) == {
        "error": "GroupageError",
        "message": "no",
        "hint": "",
        "problems": [],
    }
    assert entry.report(ValueError("odd"), as_json=False) == 1
    assert "unexpected ValueError: odd" in capsys.readouterr().err


def test_an_output_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    output.write_bytes(b"before")

    def fails(file: BinaryIO) -> int:
        file.write(b"half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_whole(str(output), fails)
    assert output.read_bytes() == b"before"
    write_whole(str(output), lambda file: file.write(b"whole\n"))
    assert output.read_bytes() == b"whole\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert output.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    check_output("-")
    check_output(str(tmp_path / "out.jsonl"))
    with pytest.raises(UsageError, match="directory"):
        check_output(str(tmp_path))
    with pytest.raises(UsageError, match="nothing can be written"):
        check_output(str(tmp_path / "missing" / "out.jsonl"))


HEAVY = (
    "temporalio", "pydantic", "obstore", "numpy", "pyarrow", "genai_prices", "rich.progress",
    "openai", "anthropic", "boto3", "botocore", "azure.identity", "google.auth", "google.genai", "google.protobuf",
    "google.cloud.aiplatform_v1", "google.cloud.storage", "google.cloud.bigquery", "httpx", "httpx2", "requests",
    "groupage.activities", "groupage.workers", "groupage.workflows", "groupage.store", "groupage.emulator",
)  # fmt: skip


def test_help_tells_of_every_command_in_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    entry.run(["--help"])
    commands = capsys.readouterr().out.partition("Commands:")[2]
    assert "emulator" in commands
    assert "..." not in commands


def test_help_loads_nothing_heavy() -> None:
    """`make bench` measures how long it takes; what takes long is what is loaded."""
    code = (
        "import sys; from groupage.cli import entry; code = entry.run(['--help']); "
        f"print(*[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "watch" in done.stdout
    assert done.stderr.split() == []
