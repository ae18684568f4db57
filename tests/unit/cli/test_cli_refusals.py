"""A command that is refused leaves nothing behind: the corrected one may have the same key."""

from pathlib import Path

import pytest
from groupage.cli import entry
from groupage.cli.run import Progress, how_to_go_on

LINE = b'{"id": "1", "prompt": "hello"}\n'


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("GROUPAGE_STORE", "GROUPAGE_CONFIG", "TEMPORAL_PROFILE", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GROUPAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    # Nobody listens there: what comes so far has passed all checks.
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINE)
    return path


def accepted(source: Path) -> list[Path]:
    return list((source.parent / "state").rglob("manifest.json"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--provider", "openia"], "no adapter is known for provider 'openia'"),
        (["--profile", "work"], "no credential profile 'work'"),
        ([], "no API key is known"),
        (["--provider", "openai-compatible"], "no address is known"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused_before_the_key_is_taken(
    source: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    command = ["run", str(source), "-o", str(source.parent / "out.jsonl"), "--model", "m", "--key", "k"]
    assert entry.run([*command, *more]) == 2
    assert said in capsys.readouterr().err
    assert accepted(source) == []


@pytest.mark.parametrize("command", ["run", "submit"])
def test_without_a_server_the_key_is_not_taken(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    assert entry.run([command, str(source), "--model", "m", "--key", "k"]) == 1
    assert "cannot be reached" in capsys.readouterr().err
    assert accepted(source) == []


def test_an_output_that_is_the_input_is_refused(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["run", str(source), "-o", str(source), "--model", "m"]) == 2
    assert "the input itself" in capsys.readouterr().err
    assert source.read_bytes() == LINE


@pytest.mark.parametrize(
    ("progress", "said", "unsaid"),
    [
        (Progress(), "nothing was sent", "watch"),
        (Progress("default/k"), "had not started it yet", "watch"),
        (Progress("default/k", started=True), "groupage watch default/k", "nothing was sent"),
    ],
)
def test_a_stopped_run_says_what_is_true_by_then(progress: Progress, said: str, unsaid: str) -> None:
    for worker in (True, False):
        told = how_to_go_on(progress, worker=worker)
        assert said in told
        assert unsaid not in told
