"""A provider's name that nobody knows is refused before it takes a key; one that a worker may know is not."""

from pathlib import Path
from typing import cast

import pytest
from groupage.client import Groupage
from groupage.client.connection import Connection
from groupage.client.providers import check_known
from groupage.schemas.errors import UsageError
from groupage.store.known import tell_providers, told_providers
from groupage.store.objects import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store((tmp_path / "store").as_uri())


def test_what_workers_tell_is_added_up_and_any_name_comes_back_as_it_was(store: Store) -> None:
    assert told_providers(store) == set()
    tell_providers(store, ["openai", "my server/1 %", "größer"])
    tell_providers(store, ["openai", "vllm"])
    assert told_providers(store) == {"openai", "my server/1 %", "größer", "vllm"}


def test_a_name_is_good_if_the_catalog_or_a_worker_knows_it_and_open_if_no_worker_has_told_any(store: Store) -> None:
    assert check_known(store, "groq")
    assert not check_known(store, "myserver")
    tell_providers(store, ["openai", "myserver"])
    assert check_known(store, "myserver")
    with pytest.raises(
        UsageError, match=r"no worker of file://.* knows provider 'mysevrer' \(did you mean 'myserver'\?\)"
    ):
        check_known(store, "mysevrer")
    with pytest.raises(UsageError, match="knows provider 'x'; nothing was sent") as caught:
        check_known(store, "x")
    assert "start that worker first" in caught.value.hint


async def test_a_refused_name_takes_no_key(store: Store) -> None:
    tell_providers(store, ["openai", "myserver"])
    # It comes to no call of Temporal.
    client = Groupage(cast("Connection", None), store)
    with pytest.raises(UsageError, match="did you mean 'openai'"):
        await client.submit([{"id": "1", "prompt": "x"}], key="k", provider="opneai", model="m")
    assert list(store.list("default")) == []
