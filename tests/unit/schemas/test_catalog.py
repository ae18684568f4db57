"""The catalog: every fact has a source, ours and a user's file are merged, what is wrong is told exactly."""

import tomllib
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from groupage.schemas import ENDPOINTS, NATIVE_ENDPOINTS, endpoints_of
from groupage.schemas.catalog import CatalogError, Fact, ProviderFacts, choose_window, load_catalog, provider_facts
from groupage.schemas.catalog.facts import PLAIN
from groupage.schemas.catalog.loading import OURS

DAY = 86_400.0


def tables_of(document: dict) -> list[tuple[str, dict]]:
    """(where, table of facts) of all sections."""
    found = [(f"dialects.{name}", table) for name, table in document["dialects"].items()]
    for name, table in document["providers"].items():
        models = table.pop("models", {})
        found += [(f"providers.{name}", table), *((f"{name}: {each}", models[each]) for each in models)]
    return found


def test_every_fact_of_ours_names_a_source_that_is_described():
    document = tomllib.loads(OURS.read_text())
    sources = set(document["sources"])
    told = [
        (where, key, given if isinstance(given, dict) else {})
        for where, table in tables_of(document)
        for key, given in table.items()
        if key not in PLAIN
    ]
    assert len(told) > 150
    assert [(where, key) for where, key, given in told if given.get("source") not in sources] == []
    assert sources - {given["source"] for _, _, given in told} == set(), "a source that nothing comes from"


def test_what_sources_contradict_each_other_in_is_marked_and_explained():
    for name in ("groq", "alibaba"):
        size = provider_facts(name).max_bytes
        assert (size.value, size.unsure, "MB" in size.note) == (100_000_000, True, True)


def test_every_provider_is_whole_for_every_model_that_is_named():
    catalog = load_catalog()
    catalog.check()
    assert len(catalog.providers) >= 10
    for name in catalog.providers:
        for model in ("", *catalog.patterns(name)):
            facts = catalog.get(name, model)
            assert facts is not None
            assert facts.limits().max_line_bytes <= facts.max_bytes.value


def test_the_endpoints_agree_with_those_that_requests_may_have():
    for name in load_catalog().providers:
        endpoints = provider_facts(name).endpoints.value
        allowed = endpoints_of(name)
        if name in NATIVE_ENDPOINTS:
            assert set(endpoints) == set(allowed), name
        else:
            assert set(endpoints) <= set(ENDPOINTS), name
    assert set(NATIVE_ENDPOINTS) <= set(load_catalog().providers)


def test_a_models_facts_win_over_its_providers():
    usual, flash = provider_facts("gemini"), provider_facts("gemini", model="Gemini-2.5-Flash-Lite")
    assert flash.max_tokens != usual.max_tokens
    # A path in front of the name is no part of it.
    assert provider_facts("gemini", model="models/gemini-2.5-flash-lite").max_tokens == flash.max_tokens
    assert provider_facts("gemini", model="gemini-1.5-pro").max_tokens == usual.max_tokens


def test_a_name_that_nobody_knows_is_a_server_of_openais_plainest_dialect():
    facts = provider_facts("some-gateway")
    assert (facts.dialect, facts.base_url, facts.expires_after.value) == ("openai", None, False)
    assert provider_facts("mine", "groq").list_takes_parameters.value is False, "by its kind"


def test_a_users_file_is_merged_fact_by_fact_and_is_the_source_of_what_it_says(tmp_path: Path):
    mine = tmp_path / "mine.toml"
    mine.write_text(
        """
        [providers.groq]
        max_bytes = 200_000_000

        [providers.bedrock.models."*nova*"]
        min_requests = { value = 500, source = "our account's quotas" }

        [providers.myserver]
        dialect = "openai"
        base_url = "http://127.0.0.1:9/v1"
        windows = ["1h", "24h..72h"]
        batch_discount = 1

        [dialects.openai]
        results_kept = "7d"
        """
    )
    groq = provider_facts("groq", path=mine)
    assert (groq.max_bytes.value, groq.max_bytes.source) == (200_000_000, str(mine))
    assert (groq.max_requests.value, groq.list_takes_parameters.value) == (50_000, False), "the rest stays ours"
    assert provider_facts("groq").max_bytes.value == 100_000_000, "ours is not changed"
    nova = [provider_facts("bedrock", model=each, path=mine).min_requests for each in ("amazon.nova-pro", "claude")]
    assert [fact.value for fact in nova] == [500, 100]
    assert nova[0].source == "our account's quotas"
    server = provider_facts("myserver", path=mine)
    assert (server.title, server.dialect, server.max_requests.value) == ("myserver", "openai", 50_000)
    assert (server.batch_discount.value, server.results_kept.value) == (Decimal(1), "7d")
    assert provider_facts("openai", path=mine).results_kept.value == "30d", "its own fact is nearer than its dialect's"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("providers = [1]", ["providers: expected a table"]),
        ("[providers.groq]\nmax_byts = 1", ["providers.groq.max_byts: no such key", "known here", "max_bytes"]),
        ("[providers.groq]\nmax_bytes = -1", ["providers.groq.max_bytes", "greater than 0", "key = value"]),
        (
            "[providers.groq]\nmax_bytes = { value = 5, sauce = 'x' }",
            ["providers.groq.max_bytes.sauce", "not permitted"],
        ),
        ("[providers.groq]\nwindows = ['a day']", ["providers.groq.windows.0", "'a day' is not a duration"]),
        ("[providers.groq]\nwindows = ['7d..24h']", ["providers.groq.windows.0", "write 24h, or 24h..7d"]),
        (
            "[providers.groq]\ncache_in_batch = 'maybe'",
            ["providers.groq.cache_in_batch", "'stacks', 'instead' or 'none'"],
        ),
        ("[providers.x]\nmax_bytes = 5", ["providers.x: it says no dialect", "'openai'"]),
        ("[providers.x]\ndialect = 'smtp'", ["providers.x: no dialect is called 'smtp'"]),
        (
            "[dialects.mine]\nmetadata = true\n[providers.x]\ndialect = 'mine'",
            ["providers.x: nothing says", "max_bytes"],
        ),
        ("[groq]\nmax_bytes = 5", ["groq: no such key", "providers"]),
        ("max_bytes", ["not TOML"]),
    ],
)
def test_a_wrong_file_is_told_by_file_key_and_what_to_do(tmp_path: Path, text: str, told: list[str]):
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(CatalogError) as caught:
        load_catalog(mine).check()
    whole = f"{caught.value} {caught.value.hint}"
    assert [part for part in [str(mine), *told] if part not in whole] == [], whole
    assert caught.value.hint


def test_a_file_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(CatalogError, match=r"none\.toml: No such file") as caught:
        load_catalog(tmp_path / "none.toml")
    assert "can be read" in caught.value.hint


@pytest.mark.parametrize(
    ("windows", "left", "chosen"),
    [
        (["24h"], None, "24h"),
        (["24h"], 3600.0, "24h"),
        (["24h"], 30 * DAY, "24h"),
        (["24h..7d"], None, "24h"),
        (["24h..7d"], 6 * 3600.0, "24h"),
        (["24h..7d"], 3.5 * DAY, "3d"),
        (["24h..7d"], 7 * DAY, "7d"),
        (["24h..336h"], 90 * DAY, "336h"),
        (["24h", "1h"], None, "24h"),
        (["24h", "1h"], 6 * 3600.0, "1h"),
        (["24h", "1h"], 60.0, "1h"),
        (["24h", "1h"], -60.0, "1h"),
        # The job's deadline is 24 h; preparing it took ten minutes.
        (["24h", "1h"], DAY - 600, "24h"),
        (["24h..7d"], 2 * DAY - 600, "2d"),
    ],
)
def test_the_window_is_the_longest_that_ends_by_the_deadline_else_the_shortest(windows, left, chosen):
    assert choose_window(windows, left) == chosen


def test_a_profiles_limits_win_over_the_catalogs():
    facts = provider_facts("openai")
    limits = facts.limits(max_requests=7, max_bytes=1000)
    assert (limits.max_requests, limits.max_bytes, limits.max_line_bytes, limits.max_tokens) == (7, 1000, 1000, None)
    assert limits.completion_window_s == timedelta(days=1).total_seconds()


def test_a_fact_without_a_source_is_refused():
    with pytest.raises(ValueError, match="source"):
        Fact(value=1, source="")
    assert {name for name, field in ProviderFacts.model_fields.items() if "Fact" not in str(field.annotation)} == {
        "name",
        *PLAIN,
    }
