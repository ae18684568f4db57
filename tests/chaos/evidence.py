"""All that is left after a run, as plain values: what `verify` judges. Gathered by `gather.py`."""

from dataclasses import dataclass, field
from typing import Any

from tests.chaos.scenario import Scenario


@dataclass(slots=True)
class Evidence:
    """One run's traces.

    `output` is the client's file, `summary` the store's summary.json, `ledger` the rows of
    ledger.parquet. `questions` are the rows of the emulator's ledger (question, route, batch_id,
    custom_id, ending, billed), `batches` and `files` its state after the end. `histories` are the
    workflows' events as they are stored, `objects` the store's objects, decompressed.
    """

    scenario: Scenario
    api_key: str
    exit_code: int | None
    output: bytes | None
    summary: dict[str, Any] | None
    ledger: list[dict[str, Any]] | None
    questions: list[dict[str, Any]]
    batches: list[dict[str, Any]]
    files: list[dict[str, Any]]
    running_workflows: list[str] = field(default_factory=list)
    ended_by_person: list[str] = field(default_factory=list)
    histories: dict[str, bytes] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    stderr: str = ""
