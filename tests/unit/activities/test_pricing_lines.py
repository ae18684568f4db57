"""Prices agree with the library, to the picodollar, at a fraction of its time."""

from datetime import UTC, datetime
from decimal import Decimal

import genai_prices
import pytest
from groupage.activities.answers_anthropic import read_usage
from groupage.activities.normalising import Normaliser
from groupage.activities.pricing import Discount, PriceBook, to_pico, to_usd
from groupage.activities.providers.base import Answer
from groupage.schemas import Outcome, Result, Route, Usage
from groupage.schemas.catalog import Fact, provider_facts
from groupage.schemas.results import BilledUsage
from groupage.store.results import ResultLine, encode_fragment

AT = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize("model", ["gpt-4o-mini-2024-07-18", "gpt-4.1-mini", "gpt-5", "o3"])
@pytest.mark.parametrize(("route", "context"), [(Route.sync, None), (Route.batch, {"processing": "batch"})])
def test_a_price_is_the_librarys(model, route, context):
    price = PriceBook("openai", AT).price(model, route)
    assert price is not None
    usage = Usage(input_tokens=1234, cached_tokens=1000, output_tokens=77)
    theirs = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=1234, cache_read_tokens=1000, output_tokens=77),
        model,
        provider_id="openai",
        genai_request_timestamp=AT,
        price_context=context,
    )
    assert to_usd(price.of(usage)) == theirs.total_price
    assert not price.estimated


def test_a_line_beyond_a_tier_is_priced_by_the_library_itself():
    price = PriceBook("openai", AT).price("gpt-5.4", Route.batch)
    assert price is not None
    assert price.linear_up_to < 1_000_000
    below, above = price.linear_up_to, price.linear_up_to + 1
    theirs = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=above, output_tokens=10),
        "gpt-5.4",
        provider_id="openai",
        genai_request_timestamp=AT,
        price_context={"processing": "batch"},
    )
    assert to_usd(price.of(Usage(input_tokens=above, output_tokens=10))) == theirs.total_price
    assert price.of(Usage(input_tokens=above)) > price.of(Usage(input_tokens=below)) + price.input


def test_CO_11_a_missing_batch_price_is_half_of_sync_and_marked_as_a_guess():
    book = PriceBook("openai", AT)
    batch, sync = book.price("text-embedding-3-small", Route.batch), book.price("text-embedding-3-small", Route.sync)
    assert batch is not None
    assert sync is not None
    usage = Usage(input_tokens=1_000_000)
    assert batch.of(usage) * 2 == sync.of(usage)
    assert (batch.estimated, sync.estimated) == (True, False)


def test_CO_11_a_seller_by_anothers_list_has_the_catalogs_discount_in_a_batch_and_not_the_full_price():
    """genai-prices finds Azure's models on OpenAI's list, and then leaves the batch prices there aside."""
    book = PriceBook("azure", AT)
    batch, sync = book.price("gpt-4o-mini", Route.batch), book.price("gpt-4o-mini", Route.sync)
    assert batch is not None
    assert sync is not None
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    assert batch.of(usage) * 2 == sync.of(usage)
    assert (batch.estimated, sync.estimated) == (True, False)


def test_another_sellers_price_is_marked_as_a_guess():
    price = PriceBook("some-gateway", AT).price("gpt-4o-mini", Route.sync)
    assert price is not None
    assert price.estimated


def test_an_unknown_model_has_no_price():
    book = PriceBook("openai", AT)
    assert book.price("no-such-model-7", Route.batch) is None
    assert book.price("", Route.sync) is None


def test_CO_06_cached_tokens_are_part_of_the_input_and_never_more_than_it():
    price = PriceBook("openai", AT).price("gpt-4.1-mini", Route.sync)
    assert price is not None
    assert price.of(Usage(input_tokens=100, cached_tokens=90)) == 10 * price.input + 90 * price.cached
    assert price.of(Usage(input_tokens=100, cached_tokens=500)) == 100 * price.cached


def test_amounts_survive_the_way_to_decimal_and_back():
    assert to_usd(to_pico(Decimal("0.000105"))) == Decimal("0.000105")
    assert to_usd(0) == Decimal(0)


def discounted(cache: str, discount: str = "0.5"):
    """A price from a seller whose list has no batch price, with these rules."""
    told = provider_facts("openai-compatible").model_copy(
        update={
            "batch_discount": Fact(value=Decimal(discount), source="test"),
            "cache_in_batch": Fact(value=cache, source="test"),
            "price_list": Fact(value="openrouter", source="test"),
        }
    )
    price = PriceBook("anything", AT, lambda _model: told).price("openai/gpt-4.1-mini", Route.batch)
    assert price is not None
    assert price.estimated
    return price


def test_CO_11_a_discount_that_only_the_catalog_knows_is_taken_off_the_list_and_marked_as_a_guess():
    listed = PriceBook("openrouter", AT).price("openai/gpt-4.1-mini", Route.sync)
    assert listed is not None
    assert listed.cached < listed.input // 2
    quarter_off = discounted("stacks", "0.25")
    assert (quarter_off.input, quarter_off.output) == (listed.input * 3 // 4, listed.output * 3 // 4)


def test_CO_11_cached_tokens_in_a_batch_cost_what_the_catalog_says_of_both_discounts():
    listed = PriceBook("openrouter", AT).price("openai/gpt-4.1-mini", Route.sync)
    assert listed is not None
    usage = Usage(input_tokens=1000, cached_tokens=900, output_tokens=10)
    rest = 100 * listed.input + 10 * listed.output
    assert discounted("stacks").of(usage) == (rest + 900 * listed.cached) // 2
    assert discounted("instead").of(usage) == rest // 2 + 900 * listed.cached
    assert discounted("none").of(usage) == (rest + 900 * listed.input) // 2
    # A cache that saves less than the batch does changes nothing.
    assert discounted("instead", "0.9").of(usage) == (rest + 900 * listed.input) // 10


@pytest.mark.parametrize(
    ("cache", "tokens"), [(each, n) for each in ("stacks", "instead", "none") for n in (3, 400_000)]
)
def test_CO_11_the_rule_about_caches_is_the_same_below_and_beyond_a_tier(cache: str, tokens: int):
    """All of a line's tokens are priced by the tier that it reaches."""
    told = provider_facts("gemini").model_copy(update={"cache_in_batch": Fact(value=cache, source="test")})
    price = PriceBook("gemini", AT, lambda _model: told).price("gemini-2.5-pro", Route.sync)
    assert price is not None
    assert (tokens > price.linear_up_to) == (tokens > 3)
    rule = Discount(Decimal("0.5"), cache)
    usage = genai_prices.Usage(input_tokens=tokens, cache_read_tokens=tokens - 1, output_tokens=2)

    def ask(usage: genai_prices.Usage) -> Decimal:
        return genai_prices.calc_price(
            usage, "gemini-2.5-pro", provider_id="google", genai_request_timestamp=AT
        ).total_price

    full = ask(genai_prices.Usage(input_tokens=tokens, output_tokens=2))
    assert ask(usage) / 2 <= rule.of(ask, usage) <= full / 2
    assert {"stacks": rule.of(ask, usage) == ask(usage) / 2, "none": rule.of(ask, usage) == full / 2}.get(cache, True)


def test_flex_has_its_own_price_where_the_list_says_one():
    flex, sync = (PriceBook("openai", AT).price("gpt-5", route) for route in (Route.flex, Route.sync))
    assert flex is not None
    assert sync is not None
    assert not flex.estimated
    assert flex.input < sync.input


@pytest.mark.parametrize(("provider", "seller"), [("bedrock", "aws"), ("vertex", "google"), ("gemini", "google")])
def test_the_catalog_says_by_which_name_a_seller_is_listed(provider: str, seller: str):
    model = {"aws": "amazon.nova-lite-v1:0", "google": "gemini-2.5-flash"}[seller]
    price = PriceBook(provider, AT).price(model, Route.sync)
    assert price is not None
    assert price.provider == seller


@pytest.mark.parametrize("route", Route)
def test_a_machine_of_ones_own_costs_nothing_by_whatever_route_and_for_models_that_no_list_knows(route: Route):
    price = PriceBook("aibrix", AT).price("our-own-finetune-3", route)
    assert price is not None
    assert price.of(Usage(input_tokens=500, output_tokens=500)) == 0
    assert not price.estimated


@pytest.mark.parametrize(
    ("provider", "place", "name"),
    [
        ("vertex", "publishers/google/models/{}", "gemini-2.5-flash"),
        ("vertex", "projects/p/locations/us-central1/publishers/google/models/{}", "gemini-2.5-flash"),
        ("vertex", "projects/p/locations/global/publishers/anthropic/models/{}", "claude-sonnet-4-5@20250929"),
        ("gemini", "models/{}", "gemini-2.5-flash"),
        ("bedrock", "arn:aws:bedrock:us-east-1:123456789012:inference-profile/{}", "us.amazon.nova-lite-v1:0"),
    ],
)
def test_a_model_costs_the_same_by_the_name_of_its_place(provider: str, place: str, name: str):
    book = PriceBook(provider, AT)
    for route in (Route.batch, Route.sync):
        plain, placed = book.price(name, route), book.price(place.format(name), route)
        assert plain is not None
        assert placed == plain


def test_a_project_that_is_called_like_a_model_prices_nothing():
    book = PriceBook("vertex", AT)
    assert book.price("gemini-2.5-flash", Route.batch) is not None
    assert book.price("projects/gemini-2.5-flash/locations/us-central1/models/1234", Route.batch) is None


def _library(model: str, route: Route, seller: str = "anthropic", **usage: int) -> Decimal:
    context = {"processing": "batch"} if route is Route.batch else None
    return genai_prices.calc_price(
        genai_prices.Usage(**usage), model, provider_id=seller, genai_request_timestamp=AT, price_context=context
    ).total_price


@pytest.mark.parametrize("route", [Route.sync, Route.batch])
@pytest.mark.parametrize("tokens", [100_000, 300_000])
def test_what_is_written_to_a_cache_for_an_hour_and_searches_have_their_own_prices(route: Route, tokens: int):
    usage = read_usage(
        {
            "input_tokens": tokens - 60_000,
            "output_tokens": 10,
            "cache_creation_input_tokens": 50_000,
            "cache_read_input_tokens": 10_000,
            "cache_creation": {"ephemeral_1h_input_tokens": 40_000, "ephemeral_5m_input_tokens": 10_000},
            "server_tool_use": {"web_search_requests": 3},
        }
    )
    assert usage is not None
    price = PriceBook("anthropic", AT).price("claude-sonnet-4-5", route)
    assert price is not None
    theirs = _library(
        "claude-sonnet-4-5",
        route,
        input_tokens=tokens,
        output_tokens=10,
        cache_read_tokens=10_000,
        cache_write_tokens=50_000,
        cache_write_1h_tokens=40_000,
        web_searches=3,
    )
    assert to_usd(price.of(usage)) == theirs
    assert price.covers(usage)
    assert not price.estimated


def written_and_read(tokens: int = 600) -> Usage:
    return BilledUsage(
        input_tokens=tokens,
        cached_tokens=tokens // 2,
        cache_write_tokens=tokens // 3,
        cache_write_1h_tokens=tokens // 6,
        output_tokens=10,
    )


def test_CO_11_what_claude_writes_to_a_cache_on_vertex_is_paid_with_its_premium():
    """Half of 3.75 and 6 a million, not half of the plain 3: a write costs more than no cache does."""
    own = PriceBook("anthropic", AT).price("claude-sonnet-4-5", Route.batch)
    for name in ("claude-sonnet-4-5@20250929", "publishers/anthropic/models/claude-sonnet-4-5"):
        price = PriceBook("vertex", AT).price(name, Route.batch)
        assert price is not None
        assert own is not None
        assert price.estimated
        assert price.of(written_and_read()) == own.of(written_and_read())


@pytest.mark.parametrize("tokens", [600, 300_000])
def test_CO_11_where_a_caches_price_stands_instead_of_the_discount_writes_are_discounted(tokens: int):
    told = provider_facts("anthropic").model_copy(
        update={
            "cache_in_batch": Fact(value="instead", source="test"),
            "price_list": Fact(value="google", source="test"),
        }
    )
    price = PriceBook("anything", AT, lambda _model: told).price("claude-sonnet-4-5", Route.batch)
    assert price is not None
    read, written = tokens // 2, tokens // 3
    counts = {"cache_write_tokens": written, "cache_write_1h_tokens": tokens // 6}
    unread = _library("claude-sonnet-4-5", Route.sync, "google", input_tokens=tokens, output_tokens=10, **counts)
    full = _library("claude-sonnet-4-5", Route.sync, "google", input_tokens=tokens)
    listed = _library(
        "claude-sonnet-4-5",
        Route.sync,
        "google",
        input_tokens=tokens,
        output_tokens=10,
        cache_read_tokens=read,
        **counts,
    )
    rest = unread - full / 2
    assert to_usd(price.of(written_and_read(tokens))) == rest / 2 + (listed - rest)


def test_searches_and_writes_that_no_list_prices_make_the_cost_a_guess():
    usage = BilledUsage(input_tokens=100, cache_write_tokens=100, cache_write_1h_tokens=100)
    searched = BilledUsage(input_tokens=100, web_searches=1)
    on_bedrock = PriceBook("bedrock", AT).price("anthropic.claude-haiku-4-5-20251001-v1:0", Route.batch)
    assert on_bedrock is not None
    assert on_bedrock.cache_write_1h is not None
    assert to_usd(on_bedrock.of(usage)) == Decimal("0.00011")  # $2.2 a million, half of it in a batch
    assert on_bedrock.covers(usage)
    assert not on_bedrock.covers(searched)
    openai = PriceBook("openai", AT).price("gpt-4o-mini", Route.batch)
    assert openai is not None
    assert not openai.covers(usage)
    assert openai.of(usage) == openai.of(Usage(input_tokens=100, cache_write_tokens=100))
    normaliser = Normaliser(
        provider="bedrock", endpoint="/invoke", model="anthropic.claude-haiku-4-5-20251001-v1:0", route=Route.sync,
        round_=0, prices=PriceBook("bedrock", AT), sent_at=AT, ended_at=AT,
    )  # fmt: skip
    lines = [normaliser.line(0, Answer("w", Outcome.succeeded, usage=each)) for each in (usage, searched)]
    assert [line.cost_estimated for line in lines] == [False, True]


def test_a_result_line_tells_searches_only_where_there_are_any_and_is_read_either_way():
    plain = Usage(input_tokens=5, output_tokens=2)
    lines = [
        ResultLine(0, Outcome.succeeded, "anthropic", Route.batch, 1, AT, usage=usage)
        for usage in (plain, BilledUsage(**plain.__dict__, web_searches=2))
    ]
    fragments = [encode_fragment(line) for line in lines]
    assert b"web_searches" not in fragments[0]
    assert b'"web_searches":2' in fragments[1]
    results = [Result.model_validate_json(b'{"id":"a"' + fragment) for fragment in fragments]
    assert results[0].usage == results[1].usage == plain
