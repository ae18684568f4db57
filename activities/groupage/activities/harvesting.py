"""Reading result files that lie on the local disk: lines to results, each joined by its id alone.

Where a provider's lines may lack an id but repeat their request, such lines wait for a second pass, in which they
are joined by that request (matching.py).

Blocking and CPU-bound: runs in a thread. One pass, one JSON parse and one dump a line; memory is the
shard's ids and 72 bytes a result.
"""

import base64
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import zstandard
from groupage.activities.matching import Echoes, Later
from groupage.activities.normalising import Normaliser
from groupage.activities.plain_answers import PlainChat
from groupage.activities.providers.base import Answer, Echo
from groupage.activities.threads import check
from groupage.schemas import ErrorClass
from groupage.schemas.ids import decode_wire_id, wire_id
from groupage.store.rows import Indices
from groupage.store.shard_results import ShardResultWriter

ReadLine = Callable[[bytes, str], Answer]
MakeEchoes = Callable[[Indices, Iterable[Echo]], Echoes]
"""From the members that have no line yet, and what the lines without an id repeat."""

_LINES_BETWEEN_CHECKS = 2048
PLAIN_MISSES_MAX = 1000
"""A file of which so many more lines than not are not plain is read the long way from there on."""
_NOT_RUN = frozenset({ErrorClass.expired, ErrorClass.cancelled})
_BROKEN = frozenset({"not_json", "not_utf8"})
"""Codes of a line that cannot be parsed: as a file's last, unended line they say that the file is cut (RP-04)."""


@dataclass(slots=True)
class Harvest:
    """What the files of one provider batch hold, counted by us. Duplicates count in `answered` and `failed`."""

    lines: int = 0
    answered: int = 0
    failed: int = 0
    """Lines with an error of their own: not those that say expired or cancelled."""
    quarantined: int = 0
    unreadable_without_id: int = 0
    quarantined_cost_nano: int = 0
    cut: bool = False
    """A file ends in the middle of a line."""
    account_said: str = ""
    """The first text of an error that may be the account's trouble."""
    alike: frozenset[int] = frozenset()
    """Requests whose lines came, but may be of others that the provider writes alike."""


def said_of_account(answer: Answer) -> str:
    """What an error tells of trouble with the account, "" for any other."""
    return answer.message if answer.error_class in {ErrorClass.account, ErrorClass.forbidden} else ""


class Quarantine:
    """Lines that belong to no request of the shard, kept whole. The file is made at the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def add(self, file: str, number: int, reason: str, line: bytes) -> None:
        if self._stream is None:
            self._stream = zstandard.ZstdCompressor(level=3).stream_writer(self.path.open("wb"))
        row: dict[str, object] = {"file": file, "line": number, "reason": reason}
        try:
            row["raw"] = line.decode()
        except UnicodeDecodeError:
            row["raw_base64"] = base64.b64encode(line).decode()
        self._stream.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


class Reader:
    """Reads the files of one shard into a ShardResultWriter."""

    def __init__(
        self,
        *,
        tag: str,
        endpoint: str,
        members: Indices,
        read_line: ReadLine,
        normaliser: Normaliser,
        stop: threading.Event,
        plain_chat: bool = False,
        echoes: MakeEchoes | None = None,
    ) -> None:
        """`plain_chat`: the lines are OpenAI's, so that the short way may be tried first.

        `echoes` is called once, and only if there are lines that have no id but repeat their request.
        """
        self._tag = tag
        self._plain_chat = plain_chat and endpoint == "/v1/chat/completions"
        self._endpoint = endpoint
        self._read_line = read_line
        self._normaliser = normaliser
        self._stop = stop
        # Whole ids as keys: a line's id is one of ours letter by letter, or it is not ours (promise 5).
        self._known = {wire_id(tag, index): index for index in members.tolist()}
        self._members = members
        self._echoes = echoes
        self._later = Later()

    def read(self, files: list[tuple[str, Path]], writer: ShardResultWriter, quarantine: Quarantine) -> Harvest:
        """`files` are (name for people, path)."""
        into = _Into(writer, quarantine, Harvest())
        for at, (name, path) in enumerate(files):
            self._read_file((at, name, path), into)
        if self._later:
            self._read_later(files, into)
        return into.harvest

    def _read_file(self, source: tuple[int, str, Path], into: "_Into") -> None:
        at, name, path = source
        known, read_line, endpoint = self._known, self._read_line, self._endpoint
        line_of, add = self._normaliser.line, into.writer.add
        short_way = PlainChat(known, self._normaliser, into.writer).add if self._plain_chat else _not_tried
        lines = answered = failed = misses = 0
        line, answer = b"", None
        # A binary file is split on 0x0A alone (docs/cases.md RP-01).
        with path.open("rb", buffering=1 << 20) as file:
            for number, line in enumerate(file, 1):
                if not number % _LINES_BETWEEN_CHECKS:
                    check(self._stop)
                if line.isspace():
                    continue
                lines += 1
                if short_way(line):
                    answered += 1
                    answer = None
                    continue
                misses += 1
                if misses > PLAIN_MISSES_MAX + answered:
                    short_way = _not_tried
                answer = read_line(line, endpoint)
                index = known.get(answer.wire_id)  # type: ignore[arg-type]  # None is no key: quarantined
                if index is None:
                    self._nobodys((at, file.tell() - len(line)), (name, number), line, answer, into)
                    continue
                if answer.error_class is None:
                    answered += 1
                elif answer.error_class not in _NOT_RUN:
                    failed += 1
                    into.harvest.account_said = into.harvest.account_said or said_of_account(answer)
                add(line_of(index, answer))
        harvest = into.harvest
        harvest.lines += lines
        harvest.answered += answered
        harvest.failed += failed
        if answer is not None and not line.endswith(b"\n") and answer.code in _BROKEN:
            harvest.cut = True

    def _nobodys(
        self, place: tuple[int, int], where: tuple[str, int], line: bytes, answer: Answer, into: "_Into"
    ) -> None:
        """A line without an id of ours: it says nothing, or its request tells later whose it is, or nothing does."""
        if answer.says_nothing:
            return
        if answer.wire_id is None and answer.echo is not None and self._echoes is not None:
            self._later.add(answer, *place, where[1])
        else:
            self._quarantine(where, line, answer, into)

    def _read_later(self, files: list[tuple[str, Path]], into: "_Into") -> None:
        """Lines without an id, the answered ones first: each takes a request of the same content that is still free."""
        assert self._echoes is not None
        waiting, harvest = into.writer.missing(self._members), into.harvest
        echoes = self._echoes(waiting, self._later.echoes())
        with ExitStack() as opened:
            handles = [opened.enter_context(path.open("rb")) for _, path in files]
            for count, (at, offset, number) in enumerate(self._later, 1):
                if not count % _LINES_BETWEEN_CHECKS:
                    check(self._stop)
                handles[at].seek(offset)
                line = handles[at].readline()
                answer = self._read_line(line, self._endpoint)
                index, why = echoes.take(answer.echo)
                if index is None:
                    self._quarantine((files[at][0], number), line, answer, into, reason=why)
                    continue
                if answer.error_class is None:
                    harvest.answered += 1
                elif answer.error_class not in _NOT_RUN:
                    harvest.failed += 1
                    harvest.account_said = harvest.account_said or said_of_account(answer)
                into.writer.add(self._normaliser.line(index, answer))
        harvest.alike = frozenset(echoes.untold())

    def _quarantine(
        self, where: tuple[str, int], line: bytes, answer: Answer, into: "_Into", *, reason: str = ""
    ) -> None:
        harvest = into.harvest
        decoded = decode_wire_id(answer.wire_id) if answer.wire_id is not None else None
        if answer.wire_id is None:
            reason = reason or answer.code or "no_id"
            harvest.unreadable_without_id += answer.error_class is ErrorClass.unreadable
        elif decoded is None:
            reason = "foreign_id"
        elif decoded.tag != self._tag:
            reason = f"id_of_{decoded.tag}"
        else:
            reason = "not_a_member"
        if answer.usage is not None:
            harvest.quarantined_cost_nano += self._normaliser.cost_nanos(answer.model, answer.usage)
        into.quarantine.add(*where, reason, line.rstrip(b"\n"))
        harvest.quarantined += 1


@dataclass(frozen=True, slots=True)
class _Into:
    """Where what is read goes."""

    writer: ShardResultWriter
    quarantine: Quarantine
    harvest: Harvest


def _not_tried(_line: bytes) -> bool:
    return False
