"""An input file, and surroundings in which nothing of this machine counts."""

from pathlib import Path

import pytest


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
    path.write_bytes(b'{"id": "1", "prompt": "hello"}\n')
    return path
