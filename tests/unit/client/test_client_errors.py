"""Whatever can be wrong in what a program hands in is told as one of our errors, in words, before a key is taken."""

import traceback
from datetime import timedelta
from typing import Any, cast

import pytest
from groupage.client import Connection, Groupage
from groupage.schemas import JobPolicy
from groupage.schemas.errors import GroupageError, InputRefused, UsageError
from groupage.store.objects import Store, open_store

GOOD: list[dict[str, Any]] = [{"id": "1", "prompt": "hello"}]


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


@pytest.fixture
def client(store: Store) -> Groupage:
    """Without a server: what is wrong must be found before one is asked."""
    return Groupage(cast("Connection", None), store)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"deadline": "soon"}, "deadline: 'soon' is not a duration"),
        ({"deadline": 6}, "deadline: 6 is not a duration: write"),
        ({"deadline": "9999999d"}, "deadline 9999999d: too long: at most 3650d"),
        ({"policy": {"settle": 5}}, "policy.settle: 5 is not a duration"),
        ({"policy": {"effective_for": timedelta(days=9999999)}}, "too long: at most 3650d"),
        ({"deadline": timedelta(0)}, "the deadline must lie in the future"),
        ({"key": "a/b"}, "key 'a/b'"),
        ({"tenant": "T"}, "tenant 'T'"),
        ({"labels": {"team": 7}}, "labels.team 7"),
        ({"policy": {"window": "many"}}, "policy.window many"),
        ({"policy": {"windwo": 3}}, "unknown field windwo"),
        ({"policy": {"poll": "often"}}, "'often' is not a duration"),
        ({"endpoint": "/v1/images"}, "endpoint '/v1/images'"),
        ({"requests": 7}, "requests are a int"),
        ({"requests": [*GOOD, {"id": object()}]}, "request 2 is not JSON"),
    ],
)
async def test_what_is_wrong_is_a_usage_error_and_takes_no_key(
    client: Groupage, store: Store, given: dict[str, Any], said: str
) -> None:
    arguments: dict[str, Any] = {"requests": GOOD, "key": "k", "model": "m"} | given
    with pytest.raises(UsageError) as caught:
        await client.submit(**arguments)
    assert said in str(caught.value)
    assert "Value error" not in str(caught.value)
    assert not [key for key in store.list("") if "/jobs/" in key]


async def test_a_name_that_cannot_be_a_jobs_is_a_usage_error(client: Groupage) -> None:
    with pytest.raises(UsageError, match="key 'a/b'"):
        await client.attach("a/b")


async def test_refused_input_says_why_and_what_to_do_in_the_traceback(client: Groupage) -> None:
    bad = [{"id": str(number), "promt": "x"} for number in range(9)]
    with pytest.raises(InputRefused) as caught:
        await client.submit(bad, key="k", model="m")
    error = caught.value
    assert error.headline == "the input: 9 of 9 lines cannot be sent; nothing was sent"
    assert "line 1: " in str(error)
    assert "promt" in str(error)
    assert "and 6 more" in str(error)
    shown = "".join(traceback.format_exception(error))
    assert "→ mend the lines" in shown
    assert shown.count("line 1: ") == 1


def test_a_hint_is_in_the_traceback() -> None:
    assert "→ do this" in "".join(traceback.format_exception(GroupageError("no", hint="do this")))
    assert "→" not in "".join(traceback.format_exception(GroupageError("no")))


async def test_a_policy_that_is_one_is_taken_as_it_is(client: Groupage) -> None:
    with pytest.raises(InputRefused):
        await client.submit([{"id": "1"}], policy=JobPolicy(window=3), model="m")
