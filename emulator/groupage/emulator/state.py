"""What must survive a kill: files, batches, fault counters, clock. SQLite, write-through, one writer.

Everything is also held in memory, so reading costs no query. A commit is on disk (in the page cache)
before the caller gets an answer: a killed process loses nothing that was acknowledged.
"""

import fcntl
import shutil
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import orjson
from groupage.emulator.life import Batch, load_batch

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (id TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS batches (id TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rules (rule TEXT PRIMARY KEY, seen INTEGER NOT NULL, fired INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS asked (rule TEXT, question INTEGER, n INTEGER NOT NULL, PRIMARY KEY (rule, question))
    WITHOUT ROWID;
"""


class StateInUse(RuntimeError):
    """Another emulator runs on the same state directory."""


@dataclass(slots=True)
class File:
    """One file. Its bytes lie in `files/{id}`; times are virtual Unix seconds."""

    id: str
    number: int
    account: str
    filename: str
    purpose: str
    bytes: int
    created_at: float
    expires_at: float | None
    visible_from: float


@dataclass(slots=True)
class RuleCount:
    seen: int = 0
    fired: int = 0


def signed(question: int) -> int:
    """SQLite's integers are signed."""
    return question - (1 << 64) if question >= 1 << 63 else question


class State:
    """Use `commit` around every change: what is inside is written in one transaction."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for part in ("files", "work", "ledger"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        self._lock: IO[str] = (directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise StateInUse(f"another emulator runs on {directory}") from error
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        # A kill of the process loses nothing without fsync; a power failure is not emulated.
        self.db.execute("PRAGMA synchronous=OFF")
        self.db.executescript(_TABLES)
        self.files: dict[str, File] = {}
        self.batches: dict[str, Batch] = {}
        self.rules: dict[str, RuleCount] = {}
        self._load()

    @property
    def path(self) -> Path:
        return self.directory / "state.sqlite"

    def _load(self) -> None:
        files = [File(**orjson.loads(row[0])) for row in self.db.execute("SELECT record FROM files")]
        self.files = {file.id: file for file in sorted(files, key=lambda file: file.number)}
        batches = [load_batch(orjson.loads(row[0])) for row in self.db.execute("SELECT record FROM batches")]
        self.batches = {batch.id: batch for batch in sorted(batches, key=lambda batch: batch.number)}
        self.rules = {row[0]: RuleCount(row[1], row[2]) for row in self.db.execute("SELECT * FROM rules")}

    @contextmanager
    def commit(self) -> Generator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def meta(self, name: str) -> Any:
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return orjson.loads(row[0]) if row else None

    def put_meta(self, name: str, value: Any) -> None:
        self.db.execute("REPLACE INTO meta VALUES (?, ?)", (name, orjson.dumps(value).decode()))

    def put_file(self, file: File) -> None:
        self.db.execute("REPLACE INTO files VALUES (?, ?)", (file.id, orjson.dumps(asdict(file)).decode()))
        self.files[file.id] = file

    def drop_file(self, file_id: str) -> None:
        self.db.execute("DELETE FROM files WHERE id = ?", (file_id,))
        self.files.pop(file_id, None)
        self.file_path(file_id).unlink(missing_ok=True)

    def put_batch(self, batch: Batch) -> None:
        self.db.execute("REPLACE INTO batches VALUES (?, ?)", (batch.id, orjson.dumps(asdict(batch)).decode()))
        self.batches[batch.id] = batch

    def put_rule(self, rule: str, count: RuleCount) -> None:
        self.db.execute("REPLACE INTO rules VALUES (?, ?, ?)", (rule, count.seen, count.fired))
        self.rules[rule] = count

    def times_asked(self, rule: str, question: int) -> int:
        """How often the rule has struck this question."""
        row = self.db.execute(
            "SELECT n FROM asked WHERE rule = ? AND question = ?", (rule, signed(question))
        ).fetchone()
        return int(row[0]) if row else 0

    def count_asked(self, rows: Iterable[tuple[str, int]]) -> None:
        self.db.executemany(
            "INSERT INTO asked VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1",
            ((rule, signed(question)) for rule, question in rows),
        )

    def forget_rules(self) -> None:
        self.db.execute("DELETE FROM rules")
        self.db.execute("DELETE FROM asked")
        self.rules.clear()

    def clear(self) -> None:
        """Forget everything but the clock."""
        with self.commit():
            for table in ("files", "batches", "rules", "asked"):
                self.db.execute(f"DELETE FROM {table}")  # noqa: S608  # names from the line above
            self.db.execute("DELETE FROM meta WHERE name LIKE 'last_%' OR name LIKE 'upload_%'")
        for part in ("files", "work", "ledger"):
            for path in (self.directory / part).iterdir():
                path.unlink(missing_ok=True)
        shutil.rmtree(self.directory / "bigquery", ignore_errors=True)
        self._load()

    def next_number(self, name: str) -> int:
        """1, 2, 3 ... for files and batches; part of the caller's transaction."""
        number = int(self.meta(f"last_{name}") or 0) + 1
        self.put_meta(f"last_{name}", number)
        return number

    def file_path(self, file_id: str) -> Path:
        return self.directory / "files" / file_id

    def work_path(self, name: str) -> Path:
        return self.directory / "work" / name

    def ledger_path(self, name: str) -> Path:
        return self.directory / "ledger" / name

    def close(self) -> None:
        self.db.close()
        self._lock.close()
