"""What `groupage status` tells of a job that has ended: also what somebody may have to look after."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from groupage.cli import entry
from groupage.schemas import JobState, Outcome, Summary
from groupage.store import keys
from groupage.store.objects import Store, open_store

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    url = (tmp_path / "store").as_uri()
    monkeypatch.setenv("GROUPAGE_STORE", url)
    monkeypatch.setenv("GROUPAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "300")
    return open_store(url)


def ended(store: Store, key: str, **more: object) -> None:
    summary = Summary.model_validate(
        {
            "tenant": "t", "key": key, "fingerprint": "f", "state": JobState.completed, "provider": "openai",
            "requests": 9, "outcomes": {Outcome.succeeded: 9}, "accepted_at": NOW, "finished_at": NOW,
        } | more
    )  # fmt: skip
    store.put_message(keys.summary("t", key), summary)


def test_what_is_left_and_what_is_in_doubt_is_told(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    ended(store, "k", left_behind=["file file-1 [x]"], maybe_paid_twice=7, unsettled={"0-1": 5}, quarantined=2)
    assert entry.run(["status", "t/k"]) == 0
    shown = capsys.readouterr()
    assert "left at the provider: file file-1" in shown.out
    assert "7 requests may have been paid for twice: 2 sync calls were cut off" in shown.out
    assert "2 result lines carried no known id" in shown.out
    assert entry.run(["status", "t/k", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["left_behind"], told["maybe_paid_twice"], told["unsettled"]) == (["file file-1 [x]"], 7, {"0-1": 5})


def test_where_nothing_is_left_there_is_no_note(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    ended(store, "k")
    assert entry.run(["status", "t/k"]) == 0
    assert "note" not in capsys.readouterr().out
