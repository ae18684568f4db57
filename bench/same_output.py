"""Whether two output files say the same: line by line, but for what differs from run to run."""

import itertools
from pathlib import Path

import orjson

EXACT = ("id", "outcome", "text", "usage", "provider", "model", "route", "rounds", "error")
MONEY = ("cost_usd", "sync_cost_usd")
BODY_VARIES = ("created",)


def check_same(ours: Path, theirs: Path) -> int:
    """Lines compared. Raises AssertionError at the first that differs."""
    count = 0
    with ours.open("rb") as left, theirs.open("rb") as right:
        for count, (a, b) in enumerate(itertools.zip_longest(left, right), 1):
            if a is None or b is None:
                raise AssertionError(f"line {count} is in one file alone")
            x, y = orjson.loads(a), orjson.loads(b)
            for name in EXACT:
                assert x[name] == y[name], f"line {count}: {name} is {x[name]!r} and {y[name]!r}"
            for name in MONEY:
                assert abs(x[name] - y[name]) < 1e-9, f"line {count}: {name} is {x[name]} and {y[name]}"
            for body in (x["body"], y["body"]):
                for name in BODY_VARIES:
                    body.pop(name)
            assert x["body"] == y["body"], f"line {count}: the bodies differ"
            for line in (x, y):
                assert line["produced_at"], f"line {count} has no time"
                assert line["effective_until"], f"line {count} does not say how long it holds"
    return count
