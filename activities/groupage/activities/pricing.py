"""What tokens cost, from genai-prices.

The library takes about 50 µs a call; a job of a million lines would spend a minute in it. Prices are
linear in the tokens up to a tier's start, so each model's price is probed once and a line then costs
five multiplications. A line beyond the first tier asks the library itself.

Amounts inside are integers of picodollars (10^-12 USD): prices are quoted in USD per million tokens
with at most six decimals, so one token's price is a whole number of them and sums are exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

import genai_prices
from genai_prices.types import ModelInfo, TieredPrices
from groupage.schemas import Route, Usage
from groupage.schemas.catalog import ProviderFacts, provider_facts
from groupage.schemas.portable.families import model_name
from groupage.schemas.results import BilledUsage

PICO = 10**12
_UNLIMITED = 2**62
_PROBE = 1_000_000
_VARIANTS = {Route.batch: {"processing": "batch"}, Route.flex: {"service_tier": "flex"}}
"""The library's names for the prices of a model that has such (its `price_variants`)."""

_PLACES = ("projects/", "publishers/", "models/", "arn:")
"""How a model is named by where it is; other names with slashes are names (openai/gpt-oss-120b)."""

Facts = Callable[[str], ProviderFacts]
"""What the catalog says of the provider for a model."""


@dataclass(frozen=True, slots=True)
class Price:
    """Picodollars a token of one model by one route.

    `estimated`: the sync price less the discount that the catalog says, or another seller's.
    """

    input: int
    cached: int
    cache_write: int
    output: int
    request: int
    cache_write_1h: int | None
    search: int | None
    """Of one search of the web, which no route makes cheaper. None (also above): the list has no such price."""
    linear_up_to: int
    """Input tokens up to which the price is linear; beyond it `of` asks the library."""
    estimated: bool
    model: str
    provider: str | None
    context: Mapping[str, str] | None
    discount: "Discount"
    at: datetime

    def of(self, usage: Usage) -> int:
        """Picodollars of one answer."""
        if usage.__class__ is not Usage:
            return self._of_more(usage)
        tokens = usage.input_tokens
        if tokens > self.linear_up_to:
            return to_pico(self.discount.of(self._ask, _library_usage(usage)))
        cached = usage.cached_tokens
        written = usage.cache_write_tokens
        if cached or written:
            cached = min(cached, tokens)
            written = min(written, tokens - cached)
            plain = tokens - cached - written
            inputs = plain * self.input + cached * self.cached + written * self.cache_write
        else:
            inputs = tokens * self.input
        return inputs + usage.output_tokens * self.output + self.request

    def covers(self, usage: Usage) -> bool:
        """Whether the list has a price for all that was used. What it has none for, `of` counts as what is next to it."""
        if not isinstance(usage, BilledUsage):
            return True
        hours, searches = usage.cache_write_1h_tokens, usage.web_searches
        return (not hours or self.cache_write_1h is not None) and (not searches or self.search is not None)

    def _of_more(self, usage: Usage) -> int:
        plain = Usage(**{name: getattr(usage, name) for name in Usage.model_fields})
        if not isinstance(usage, BilledUsage):
            return self.of(plain)
        searches = usage.web_searches * (self.search or 0)
        if self.cache_write_1h is None:
            return self.of(plain) + searches
        theirs = _library_usage(usage)
        hours = min(usage.cache_write_1h_tokens, int(theirs.cache_write_tokens or 0))
        if usage.input_tokens > self.linear_up_to:
            theirs.cache_write_1h_tokens = hours
            return to_pico(self.discount.of(self._ask, theirs)) + searches
        return self.of(plain) + hours * (self.cache_write_1h - self.cache_write) + searches

    def _ask(self, usage: genai_prices.Usage) -> Decimal:
        return _ask(self.model, self.provider, self.context, self.at, usage)

    def nanos(self, usage: Usage) -> int:
        """Whole nano-dollars of one answer, the unit of the store's rows."""
        return (self.of(usage) + 500) // 1000


def to_pico(usd: Decimal) -> int:
    return int((usd * PICO).to_integral_value())


def to_usd(pico: int) -> Decimal:
    """Exact; normalised so that its text is short."""
    return Decimal(pico).scaleb(-12).normalize() if pico else Decimal(0)


@dataclass(frozen=True, slots=True)
class Discount:
    """What is taken off a list price: `factor` is what is left, `cache` what becomes of tokens read from a cache.

    stacks   they cost the cache's price, discounted as all else
    instead  they cost the cache's price, or the discounted full one where that is lower
    none     they cost the discounted full price

    What is written to a cache costs its own price, discounted as all else; with `none` there is no cache.
    """

    factor: Decimal = Decimal(1)
    cache: str = "stacks"

    def of(self, ask: Callable[[genai_prices.Usage], Decimal], usage: genai_prices.Usage) -> Decimal:
        """USD for an answer, from `ask`'s list prices for usages."""
        listed = ask(usage)
        if self.cache == "stacks":
            return listed * self.factor
        # The same tokens with nothing read from a cache: so many of them that a tier is not left.
        tokens = int(usage.input_tokens or 0)
        if self.cache == "none" or not tokens:
            return ask(genai_prices.Usage(input_tokens=tokens, output_tokens=usage.output_tokens)) * self.factor
        share = Decimal(int(usage.cache_read_tokens or 0)) / tokens
        in_full = (ask(genai_prices.Usage(input_tokens=tokens)) - ask(genai_prices.Usage())) * share
        unread = genai_prices.Usage(
            input_tokens=tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
            output_tokens=usage.output_tokens,
        )
        rest = ask(unread) - in_full
        return rest * self.factor + min(listed - rest, in_full * self.factor)


class PriceBook:
    """Prices of one provider at one moment, each model looked up once.

    `facts` tell the seller's name, and the discounts where the list has no price of its own for a route; None:
    those of our own catalog.
    """

    def __init__(self, provider: str, at: datetime | None = None, facts: Facts | None = None) -> None:
        self._provider = provider
        self._facts = facts or (lambda model: provider_facts(provider, model=model))
        self._at = at or datetime.now(UTC)
        self._prices: dict[tuple[str, Route], Price | None] = {}

    def price(self, model: str, route: Route) -> Price | None:
        """None where the library knows no price of the model."""
        key = (model, route)
        if key not in self._prices:
            self._prices[key] = self._look_up(model, route)
        return self._prices[key]

    def _look_up(self, model: str, route: Route) -> Price | None:
        facts = self._facts(model)
        if facts.batch_discount.value == 1:
            # A machine of one's own: what its models cost elsewhere says nothing, and no list knows their names.
            return _free(model, self._at)
        found = _find(model, facts.price_list.value if facts.price_list else self._provider, self._at)
        if found is None:
            return None
        info, provider, model = found.model, found.provider, found.name
        foreign = provider is None
        if route is Route.sync:
            return self._probe(model, provider, None, Discount(), estimated=foreign)
        context = _VARIANTS[route]
        if found.own and any(variant.when == context for variant in info.price_variants or ()):
            return self._probe(model, provider, context, Discount(), estimated=foreign)
        # CO-11: what no price list says is a guess, however sure the catalog is of the discount.
        discount = Discount(1 - facts.batch_discount.value, facts.cache_in_batch.value)
        return self._probe(model, provider, None, discount, estimated=True)

    def _probe(
        self,
        model: str,
        provider: str | None,
        context: Mapping[str, str] | None,
        discount: Discount,
        *,
        estimated: bool,
    ) -> Price:
        prices = _calculate(model, provider, context, self._at, genai_prices.Usage()).model_price
        starts = [
            tier.start for value in prices.__dict__.values() if isinstance(value, TieredPrices) for tier in value.tiers
        ]
        linear_up_to = min(starts, default=_UNLIMITED)
        # An odd tier that starts at 0 leaves no linear part: everything is asked.
        probe = min(_PROBE, linear_up_to) if linear_up_to > 0 else 1

        def ask(usage: genai_prices.Usage) -> Decimal:
            return _ask(model, provider, context, self._at, usage)

        def a_token(usage: genai_prices.Usage) -> int:
            return to_pico((discount.of(ask, usage) - request) / probe)

        request = discount.of(ask, genai_prices.Usage())
        hours = genai_prices.Usage(input_tokens=probe, cache_write_tokens=probe, cache_write_1h_tokens=probe)
        # A thousand: a list has a price for so many.
        searches = ask(genai_prices.Usage(web_searches=1000)) - ask(genai_prices.Usage())
        return Price(
            input=a_token(genai_prices.Usage(input_tokens=probe)),
            cached=a_token(genai_prices.Usage(input_tokens=probe, cache_read_tokens=probe)),
            cache_write=a_token(genai_prices.Usage(input_tokens=probe, cache_write_tokens=probe)),
            output=a_token(genai_prices.Usage(output_tokens=probe)),
            request=to_pico(request),
            cache_write_1h=a_token(hours) if prices.cache_write_1h_mtok is not None else None,
            search=to_pico(searches / 1000) if prices.web_searches_kcount is not None else None,
            linear_up_to=linear_up_to,
            estimated=estimated,
            model=model,
            provider=provider,
            context=context,
            discount=discount,
            at=self._at,
        )


class _Found(NamedTuple):
    """`name` is what lists know the model by. `provider` is None where only another seller's price is known. `own`:
    the model is on the seller's own list.

    A seller may sell by another's list (Azure by OpenAI's): the library then leaves that list's batch prices aside.
    """

    name: str
    model: ModelInfo
    provider: str | None
    own: bool


def _free(model: str, at: datetime) -> Price:
    return Price(
        input=0, cached=0, cache_write=0, output=0, request=0, cache_write_1h=0, search=0, linear_up_to=_UNLIMITED, estimated=False, model=model,
        provider=None, context=None, discount=Discount(Decimal(0)), at=at,
    )  # fmt: skip


def _find(model: str, provider: str, at: datetime) -> _Found | None:
    if not model:
        return None
    # Not by the whole path: a project's name may be a model's.
    name = model_name(model) if model.startswith(_PLACES) else model
    for seller in (provider, None):
        try:
            found = _calculate(name, seller, None, at, genai_prices.Usage())
        except LookupError:
            continue
        own = any(found.model is each for each in found.provider.models)
        return _Found(name, found.model, seller, own)
    return None


def _library_usage(usage: Usage) -> genai_prices.Usage:
    return genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
        cache_write_tokens=min(usage.cache_write_tokens, max(0, usage.input_tokens - usage.cached_tokens)),
        output_tokens=usage.output_tokens,
    )


def _calculate(
    model: str,
    provider: str | None,
    context: Mapping[str, str] | None,
    at: datetime,
    usage: genai_prices.Usage,
) -> genai_prices.types.PriceCalculation:
    return genai_prices.calc_price(
        usage, model, provider_id=provider, genai_request_timestamp=at, price_context=context
    )


def _ask(
    model: str, provider: str | None, context: Mapping[str, str] | None, at: datetime, usage: genai_prices.Usage
) -> Decimal:
    return _calculate(model, provider, context, at, usage).total_price
