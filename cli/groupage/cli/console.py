"""What goes where: data to stdout, words to stderr, JSON instead of tables with --json."""

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from groupage.cli.entry import tell
from groupage.schemas import Message

_SMALLEST = Decimal("0.0001")


class Console:
    """`words` go to stderr so that stdout can be piped; with `as_json` people's words are left out of stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.is_terminal = sys.stderr.isatty()

    def say(self, text: str) -> None:
        tell(text)

    def hint(self, text: str) -> None:
        self.say(f"  → {text}")

    def data(self, value: Message | dict[str, Any] | list[Any], *, to_stderr: bool = False) -> None:
        """One JSON document on one line."""
        stream = sys.stderr if to_stderr else sys.stdout
        stream.write(f"{to_json(value)}\n")
        stream.flush()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table for people, on stdout: it is what was asked for."""
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        table = Table(
            *columns,
            title=Text(title) if title else None,
            title_justify="left",
            header_style="bold",
            show_header=any(columns),
        )
        for row in rows:
            # Not as markup: words from outside, and our own hints, have brackets in them.
            table.add_row(*map(Text, row))
        # A pipe has no width: lines must not be cut for a terminal that is not there.
        width = None if sys.stdout.isatty() else 200
        RichConsole(file=sys.stdout, width=width).print(table)


def to_json(value: Message | dict[str, Any] | list[Any]) -> str:
    import orjson

    if isinstance(value, Message):
        return value.model_dump_json(by_alias=True)
    return orjson.dumps(value, default=_plain).decode()


def _plain(value: object) -> object:
    if isinstance(value, Message):
        return value.model_dump(mode="json", by_alias=True)
    return str(value)


def money(value: Any) -> str:
    """Dollars with as many digits as matter."""
    if value is None:
        return "unknown"
    if 0 < value < _SMALLEST:
        return f"under ${_SMALLEST}"
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def cost(value: Any, unpriced: Mapping[str, int], requests: int) -> str:
    """`$0.12`, or what is not known of it. `unpriced` of the `requests`, by model, are not in `value`."""
    without = sum(unpriced.values())
    if not without:
        return money(value)
    why = f"no price for {', '.join(unpriced)}: {without:,} of {requests:,} requests"
    return f"{money(value)} and what is not known ({why})" if value else f"not known ({why})"
