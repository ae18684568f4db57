"""From an answer to the line that the store keeps of it: costs, times and ids added."""

from datetime import UTC, datetime, timedelta

from groupage.activities.pricing import Price, PriceBook
from groupage.activities.providers.base import Answer
from groupage.schemas import ErrorClass, Outcome, Route, Usage
from groupage.store.results import ResultLine

CLOCK_SKEW = timedelta(minutes=10)
"""A provider's clock may be so far from ours before its times are not believed."""

FREE_ENDPOINTS = frozenset({"/v1/moderations"})
"""Answers without usage that cost nothing; elsewhere a missing usage means a cost that nobody knows."""

_MOMENTS_MAX = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Normaliser:
    """Makes the result lines of one shard. `sent_at` and `ended_at` bound the times that are believed."""

    def __init__(
        self,
        *,
        provider: str,
        endpoint: str,
        model: str,
        route: Route,
        round_: int,
        prices: PriceBook,
        sent_at: datetime,
        ended_at: datetime,
        batch_id: str = "",
    ) -> None:
        self.provider = provider
        self._model = model
        self._free = endpoint in FREE_ENDPOINTS
        self.route = route
        self.rounds = round_ + 1
        self._book = prices
        self.batch_id = batch_id
        self.ended_at = ended_at
        self._earliest = int((sent_at - CLOCK_SKEW - _EPOCH).total_seconds())
        self._latest = int((ended_at + CLOCK_SKEW - _EPOCH).total_seconds())
        self._moments: dict[int, datetime] = {}
        self._prices: dict[str, tuple[Price | None, Price | None]] = {}

    def line(self, index: int, answer: Answer) -> ResultLine:
        """The line of one answer (or of one request that got none). Hot path of collecting."""
        model = answer.model or self._model
        usage = answer.usage
        cost = sync_cost = None
        estimated = False
        if usage is not None:
            price, sync_price = self._prices.get(model) or self.prices_of(model)
            if price is None:
                estimated = True
            else:
                cost = price.nanos(usage)
                estimated = price.estimated or not price.covers(usage)
            if sync_price is not None:
                sync_cost = sync_price.nanos(usage)
        elif answer.error_class is None and not self._free:
            estimated = True
        provider_ids = {}
        if self.batch_id:
            provider_ids["batch"] = self.batch_id
        if answer.request_id:
            provider_ids["request"] = answer.request_id
        return ResultLine(
            index,
            answer.outcome,
            self.provider,
            self.route,
            self.rounds,
            self._produced_at(answer),
            answer.error_class,
            answer.code,
            answer.message,
            answer.text,
            answer.body,
            answer.tool_calls,
            model,
            usage,
            cost,
            sync_cost,
            0,
            estimated,
            provider_ids,
        )

    def unanswered(self, index: int, outcome: Outcome, error_class: ErrorClass, code: str, message: str) -> ResultLine:
        """The line of a request of which the provider said nothing."""
        return self.line(index, Answer(None, outcome, error_class, code, message))

    def cost_nanos(self, model: str | None, usage: Usage) -> int:
        """What a line costs that belongs to no request of ours; 0 where no price is known."""
        price, _ = self.prices_of(model or self._model)
        return price.nanos(usage) if price else 0

    def prices_of(self, model: str) -> tuple[Price | None, Price | None]:
        """Prices of the reported model, else of the one that was asked for (a deployment's own name)."""
        price, sync_price = (
            self._book.price(model, route) or self._book.price(self._model, route) for route in (self.route, Route.sync)
        )
        self._prices[model] = (price, sync_price)
        return price, sync_price

    def _produced_at(self, answer: Answer) -> datetime:
        body = answer.body
        if type(body) is not dict:
            return self.ended_at
        created = body.get("created")
        if created is None:
            created = body.get("created_at")
        if type(created) is not int:
            created = int(created) if type(created) is float and abs(created) < 2**53 else 0
        return self.moment_of(created)

    def moment_of(self, created: int) -> datetime:
        """When an answer was made by what it says (Unix seconds), if that can be believed."""
        if created in self._moments:
            return self._moments[created]
        if not self._earliest <= created <= self._latest:
            return self.ended_at
        moment = min(_EPOCH + timedelta(seconds=created), self.ended_at)
        if len(self._moments) < _MOMENTS_MAX:
            self._moments[created] = moment
        return moment
