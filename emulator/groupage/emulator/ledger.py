"""What was billed, question by question.

Each batch has a page (`ledger/{batch}.page`, fixed rows in input order, and `{batch}.ids` with the
custom ids), sync calls share one (`ledger/sync.page`). Prices are one simple pair for all models;
batches cost half.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from groupage.emulator.outcomes import USABLE, Ending
from groupage.emulator.state import State

INPUT_USD = 0.15e-6
OUTPUT_USD = 0.60e-6
BATCH_DISCOUNT = 0.5

PAGE_ROW: np.dtype[Any] = np.dtype(
    [("question", "<u8"), ("input", "<u4"), ("output", "<u4"), ("ending", "u1"), ("billed", "u1"), ("spare", "V6")]
)


def sync_cost(input_tokens: int, output_tokens: int) -> float:
    return input_tokens * INPUT_USD + output_tokens * OUTPUT_USD


def batch_cost(input_tokens: int, output_tokens: int) -> float:
    return sync_cost(input_tokens, output_tokens) * BATCH_DISCOUNT


class Ledger:
    """Appends sync calls; reads all pages on demand (8 bytes a request in memory while it does)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sync: int | None = None
        self.sync_calls = 0
        self._open()

    def _open(self) -> None:
        path = self._state.ledger_path("sync.page")
        self._sync = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        whole = os.fstat(self._sync).st_size // PAGE_ROW.itemsize
        # A kill can cut the last row; cutting it off keeps the file readable.
        os.ftruncate(self._sync, whole * PAGE_ROW.itemsize)
        self.sync_calls = whole

    def add_sync(self, question: int, input_tokens: int, output_tokens: int, ending: Ending, billed: bool) -> None:
        """Written before the answer goes out: what was answered is in the ledger."""
        row = np.array([(question, input_tokens, output_tokens, ending, billed, b"")], PAGE_ROW)
        assert self._sync is not None
        os.write(self._sync, row.tobytes())
        self.sync_calls += 1

    def reset(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        if self._sync is not None:
            os.close(self._sync)
            self._sync = None

    def pages(self) -> list[tuple[str, Path]]:
        """(batch id or "", page) of all that was billed or tried, oldest first; "" is the sync page."""
        batches = [(batch.id, self._state.ledger_path(f"{batch.id}.page")) for batch in self._state.batches.values()]
        return [one for one in batches if one[1].exists()] + [("", self._state.ledger_path("sync.page"))]

    def summary(self) -> dict[str, Any]:
        """Sums, and how often questions were paid for more than once."""
        batches = [batch.done for batch in self._state.batches.values() if batch.done]
        sync = np.fromfile(self._state.ledger_path("sync.page"), PAGE_ROW)
        billed = sync[sync["billed"] == 1]
        used, made = int(billed["input"].sum()), int(billed["output"].sum())
        payments = repeated(self.pages(), usable_only=False)
        answers = repeated(self.pages(), usable_only=True)
        return {
            "batch": {
                "batches": len(batches),
                "billed": sum(done.billed for done in batches),
                "input_tokens": sum(done.input_tokens for done in batches),
                "output_tokens": sum(done.output_tokens for done in batches),
                "cost_usd": round(sum(done.cost_usd for done in batches), 9),
            },
            "sync": {
                "calls": len(sync),
                "billed": len(billed),
                "input_tokens": used,
                "output_tokens": made,
                "cost_usd": round(sync_cost(used, made), 9),
            },
            "questions_paid": payments.questions,
            "questions_paid_more_than_once": payments.repeated,
            "questions_answered": answers.questions,
            "questions_answered_more_than_once": answers.repeated,
            "tags": self._tags(),
        }

    def _tags(self) -> dict[str, list[str]]:
        """Ids of the batches by metadata value: two ids at one value are a double submission."""
        tags: dict[str, list[str]] = {}
        for batch in self._state.batches.values():
            for value in set((batch.metadata or {}).values()):
                tags.setdefault(value, []).append(batch.id)
        return tags


class Repeats:
    """Distinct questions, and those among them that occur more than once."""

    def __init__(self, questions: npt.NDArray[np.uint64]) -> None:
        self.values, self.counts = np.unique(questions, return_counts=True)
        self.questions = len(self.values)
        self.repeated = int((self.counts > 1).sum())


def repeated(pages: list[tuple[str, Path]], *, usable_only: bool) -> Repeats:
    """Over billed rows; with `usable_only` over rows that also gave an answer that a reader can use."""
    found = [np.empty(0, np.uint64)]
    for _, path in pages:
        rows = np.fromfile(path, PAGE_ROW)
        keep = rows["billed"] == 1
        if usable_only:
            keep &= np.isin(rows["ending"], [int(ending) for ending in USABLE])
        found.append(rows["question"][keep])
    return Repeats(np.concatenate(found))


def question_lines(
    pages: list[tuple[str, Path]], ids_of: dict[str, Path], *, min_paid: int = 0, question: int | None = None
) -> Iterator[bytes]:
    """One JSON line per row of the ledger; `min_paid`: only questions paid for at least so often."""
    wanted: npt.NDArray[np.uint64] | None = None
    if min_paid:
        paid = repeated(pages, usable_only=False)
        wanted = paid.values[paid.counts >= min_paid]
    if question is not None:
        wanted = np.array([question], np.uint64)
    for batch_id, path in pages:
        rows = np.fromfile(path, PAGE_ROW)
        indices = np.arange(len(rows)) if wanted is None else np.flatnonzero(np.isin(rows["question"], wanted))
        ids = ids_of[batch_id].read_bytes().split(b"\n") if batch_id and len(indices) else []
        cost = batch_cost if batch_id else sync_cost
        for index in indices.tolist():
            row = rows[index]
            used, made, billed = int(row["input"]), int(row["output"]), bool(row["billed"])
            yield orjson.dumps(
                {
                    "question": f"{int(row['question']):016x}",
                    "route": "batch" if batch_id else "sync",
                    "batch_id": batch_id or None,
                    "custom_id": orjson.loads(ids[index]) if batch_id else None,
                    "line": index + 1,
                    "ending": Ending(int(row["ending"])).name,
                    "billed": billed,
                    "input_tokens": used,
                    "output_tokens": made,
                    "cost_usd": cost(used, made) if billed else 0.0,
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
