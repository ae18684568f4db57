"""Prices agree with the library, to the picodollar, at a fraction of its time."""

from datetime import UTC, datetime
from decimal import Decimal

import genai_prices
import pytest
from groupage.activities.pricing import PriceBook, to_pico, to_usd
from groupage.schemas import Route, Usage

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
