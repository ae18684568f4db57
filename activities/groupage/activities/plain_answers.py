"""The short way for the line that most batches are made of: a chat answer that succeeded, with nothing special.

`answers`, `normalising` and the store's writer can make a result of any line, through objects that hold
anything. Here the same bytes are made of a plain line at little more than half the cost. Every doubt is left to
the long way: `add` answers False then and has done nothing. A test compares both ways, byte for byte.
"""

from collections.abc import Mapping
from typing import NamedTuple

import orjson
from groupage.activities.normalising import Normaliser
from groupage.activities.pricing import Price
from groupage.schemas import Outcome
from groupage.store.results import FRAGMENT_END, iso, money
from groupage.store.rows import FLAG_COST, FLAG_ESTIMATED, FLAG_SYNC_COST, FLAG_USAGE, OUTCOME_CODE, ROUTE_CODE, micros
from groupage.store.shard_results import ShardResultWriter

_loads, _dumps = orjson.loads, orjson.dumps
_OUTCOME = Outcome.succeeded
_KINDS_MAX = 1024
_NOTHING: Mapping[str, int] = {}
_TOKENS_MAX = 2**31


class _Kind(NamedTuple):
    """What all lines of one model and one second share."""

    price: Price
    sync_price: Price
    linear_up_to: int
    tail: bytes
    """The fragment from `,"provider"` to where the request's id stands."""
    model_code: int
    flags: int
    micros: int


class PlainChat:
    """Adds plain lines of one shard to its writer."""

    def __init__(self, known: Mapping[str, int], normaliser: Normaliser, writer: ShardResultWriter) -> None:
        """`known`: index by wire id."""
        self._known = known
        self._normaliser = normaliser
        self._writer = writer
        self._route = ROUTE_CODE[normaliser.route]
        self._kinds: dict[tuple[str, int], _Kind | None] = {}

    def add(self, line: bytes) -> bool:
        """Whether the line was plain, and is written. Hot path of collecting."""
        try:
            row = _loads(line)
            response = row["response"]
            body = response["body"]
            (choice,) = body["choices"]
            message = choice["message"]
            text = message["content"]
            usage = body["usage"]
            inputs, outputs = usage["prompt_tokens"], usage["completion_tokens"]
            ins = usage.get("prompt_tokens_details") or _NOTHING
            outs = usage.get("completion_tokens_details") or _NOTHING
            reasoning = outs.get("reasoning_tokens") or 0
            request_id, status = response["request_id"], response["status_code"]
            if (
                status != 200
                or choice["finish_reason"] != "stop"
                or row.get("error")
                or message.get("refusal")
                or message.get("tool_calls") is not None
                or ins.get("cached_tokens")
                or ins.get("cache_write_tokens")
                or ins.get("cache_creation_tokens")
                or not type(status) is type(inputs) is type(outputs) is type(reasoning) is int
                or not type(text) is type(request_id) is str
                or not request_id
                or not (0 <= inputs < _TOKENS_MAX and 0 <= outputs < _TOKENS_MAX and 0 <= reasoning < _TOKENS_MAX)
            ):
                return False
            index = self._known[row["custom_id"]]
            kind = self._kinds[body["model"], body["created"]]
        except KeyError:
            return self._first(line)
        except (AttributeError, TypeError, ValueError):
            return False
        if kind is None or inputs > kind.linear_up_to:
            return False
        price, sync = kind.price, kind.sync_price
        cost = (inputs * price.input + outputs * price.output + price.request + 500) // 1000
        sync_cost = (inputs * sync.input + outputs * sync.output + sync.request + 500) // 1000
        fragment = (
            b',"outcome":"succeeded",%b,"usage":{"input_tokens":%d,"cached_tokens":0,"cache_write_tokens":0,'
            b'"output_tokens":%d,"reasoning_tokens":%d},"cost_usd":%b,"sync_cost_usd":%b%b%b}%b'
            % (
                _dumps({"text": text, "body": body})[1:-1],
                inputs,
                outputs,
                reasoning,
                money(cost).encode(),
                money(sync_cost).encode(),
                kind.tail,
                _dumps(request_id),
                FRAGMENT_END,
            )
        )
        self._writer.add_encoded(
            fragment,
            (
                index,
                len(fragment),
                inputs,
                0,
                0,
                outputs,
                reasoning,
                0,
                kind.model_code,
                OUTCOME_CODE[_OUTCOME],
                0,
                self._route,
                self._normaliser.rounds,
                kind.flags,
                cost,
                sync_cost,
                0,
                kind.micros,
            ),
        )
        return True

    def _first(self, line: bytes) -> bool:
        """A key is missing: learn the line's kind if it is the first of its kind, and try again; else not plain."""
        row = _loads(line)
        id_, response = row.get("custom_id"), row.get("response")
        body = response.get("body") if type(response) is dict else None
        if type(body) is not dict or type(id_) is not str or id_ not in self._known:
            return False
        model, created = body.get("model"), body.get("created")
        if type(model) is not str or type(created) is not int or not model or (model, created) in self._kinds:
            return False
        if len(self._kinds) >= _KINDS_MAX:
            self._kinds.clear()
        self._kinds[model, created] = self._kind(model, created)
        return self.add(line)

    def _kind(self, model: str, created: int) -> _Kind | None:
        """None where the lines of this kind are not plain: a price is missing."""
        normaliser = self._normaliser
        price, sync_price = normaliser.prices_of(model)
        if price is None or sync_price is None or not normaliser.batch_id:
            return None
        moment = normaliser.moment_of(created)
        shared = {
            "provider": normaliser.provider,
            "model": model,
            "route": normaliser.route.value,
            "rounds": normaliser.rounds,
            "produced_at": iso(moment),
            "error": None,
            "provider_ids": {"batch": normaliser.batch_id},
        }
        flags = FLAG_USAGE | FLAG_COST | FLAG_SYNC_COST | (FLAG_ESTIMATED if price.estimated else 0)
        return _Kind(
            price,
            sync_price,
            min(price.linear_up_to, sync_price.linear_up_to),
            b"," + _dumps(shared)[1:-2] + b',"request":',
            self._writer.model_code(model),
            flags,
            micros(moment),
        )
