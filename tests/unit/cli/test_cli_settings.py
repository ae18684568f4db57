"""What the settings say is heeded by commands, and what is wrong with them is named."""

import logging
from pathlib import Path

import pytest
import structlog
from groupage.cli import entry


@pytest.mark.parametrize("store", ["", "memory://"])
def test_a_state_directory_that_cannot_be_written_is_named_with_its_setting(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """As the home directory of a container that may not write."""
    monkeypatch.setenv("GROUPAGE_STATE_DIR", "/proc/nope")
    monkeypatch.setenv("GROUPAGE_STORE", store)
    assert entry.run(["run", str(source), "--model", "m"]) == 2
    said = capsys.readouterr().err
    assert "cannot write to /proc/nope" in said
    assert "state_dir (GROUPAGE_STATE_DIR)" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("command", "level"),
    [(["run", "IN"], "error"), (["watch", "k"], "debug"), (["cancel", "k"], "error"), (["decide", "k", "go_on"], "error"),
     (["sweep"], "error"), (["status", "k"], None)],
)  # fmt: skip
def test_commands_log_as_the_settings_say(
    source: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], level: str | None
) -> None:
    if level is not None:
        monkeypatch.setenv("GROUPAGE_LOG_LEVEL", level)
        monkeypatch.setenv("GROUPAGE_LOG_FORMAT", "json")
    root = logging.getLogger()
    handlers, before = list(root.handlers), root.level
    try:
        entry.run([str(source) if word == "IN" else word for word in command])
        assert root.level == getattr(logging, (level or "warning").upper())
        (handler,) = root.handlers
        said = handler.format(logging.LogRecord("x", logging.ERROR, "", 0, "words", (), None))
        assert said.startswith("{") is (level is not None)
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        structlog.reset_defaults()
