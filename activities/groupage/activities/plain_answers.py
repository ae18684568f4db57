"""The short way for the line that most batches are made of: a chat answer that succeeded, with nothing special.

`answers`, `normalising` and the store's writer can make a result of any line, through objects that hold
anything. Here the same bytes are made of a plain line at half the cost: what does not depend on its text, body and
ids is written once for all lines with the same numbers of tokens. Every doubt is left to the long way: `add`
answers False then and has done nothing. A test compares both ways, byte for byte.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import orjson
from groupage.activities.normalising import Normaliser
from groupage.schemas import Outcome
from groupage.store.results import FRAGMENT_END, iso, money
from groupage.store.rows import (
    FLAG_COST,
    FLAG_ESTIMATED,
    FLAG_SYNC_COST,
    FLAG_USAGE,
    OUTCOME_CODE,
    RESULT_BYTES,
    ROUTE_CODE,
    micros,
)
from groupage.store.shard_results import ShardResultWriter

_loads, _dumps = orjson.loads, orjson.dumps
_HEAD = b',"outcome":"succeeded",'
_TAIL = b"}" + FRAGMENT_END
_KEPT_MAX = 16_384
"""Of each kind of what lines share: some 10 MB."""
_NOTHING: Mapping[str, int] = {}
_TOKENS_MAX = 2**31
_ROW_BEGIN = struct.Struct("<2I")
"""A row's first two columns, index and size; its last one is the moment's 8 bytes."""
_ROW_END = struct.Struct("<q")

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Usage(NamedTuple):
    """What lines with the same model and numbers of tokens share."""

    fragment: bytes
    """From `,"usage"` to where the moment stands."""
    row: bytes
    """The columns between a row's begin and end."""


class _Moment(NamedTuple):
    """What lines of the same second share."""

    fragment: bytes
    """From the moment to where the request's id stands."""
    row: bytes


class PlainChat:
    """Adds plain lines of one shard to its writer."""

    def __init__(self, known: Mapping[str, int], normaliser: Normaliser, writer: ShardResultWriter) -> None:
        """`known`: index by wire id."""
        self._known = known
        self._normaliser = normaliser
        self._writer = writer
        self._usages: dict[tuple[str, int, int, int], _Usage] = {}
        self._moments: dict[int, _Moment] = {}

    def add(self, line: bytes) -> bool:
        """Whether the line was plain, and is written. Hot path of collecting."""
        try:
            row = _loads(line)
            response = row["response"]
            body = response["body"]
            (choice,) = body["choices"]
            message = choice["message"]
            text = message["content"]
            used = body["usage"]
            inputs, outputs = used["prompt_tokens"], used["completion_tokens"]
            ins = used.get("prompt_tokens_details") or _NOTHING
            outs = used.get("completion_tokens_details") or _NOTHING
            reasoning = outs.get("reasoning_tokens") or 0
            request_id, status = response["request_id"], response["status_code"]
            model, created = body["model"], body["created"]
            index = self._known[row["custom_id"]]
            if (
                status != 200
                or choice["finish_reason"] != "stop"
                or row.get("error")
                or message.get("refusal")
                or message.get("tool_calls") is not None
                or ins.get("cached_tokens")
                or ins.get("cache_write_tokens")
                or ins.get("cache_creation_tokens")
                or not type(status) is type(created) is type(inputs) is type(outputs) is type(reasoning) is int
                or not type(text) is type(request_id) is type(model) is str
                or not request_id
            ):
                return False
            texts = _dumps({"text": text, "body": body})[1:-1]
        except (AttributeError, KeyError, TypeError, ValueError):
            return False
        counts = (model, inputs, outputs, reasoning)
        usage = self._usages.get(counts) or self._usage(*counts)
        if usage is None:
            return False
        moment = self._moments.get(created) or self._moment(created)
        fragment = b"".join((_HEAD, texts, usage.fragment, moment.fragment, _dumps(request_id), _TAIL))
        self._writer.add_encoded(fragment, _ROW_BEGIN.pack(index, len(fragment)) + usage.row + moment.row)
        return True

    def _usage(self, model: str, inputs: int, outputs: int, reasoning: int) -> _Usage | None:
        """None where such lines are not plain: a price is missing, or holds for fewer tokens."""
        normaliser = self._normaliser
        price, sync_price = normaliser.prices_of(model)
        if price is None or sync_price is None or not model or not normaliser.batch_id:
            return None
        if min(inputs, outputs, reasoning) < 0 or max(inputs, outputs, reasoning) >= _TOKENS_MAX:
            return None
        if inputs > min(price.linear_up_to, sync_price.linear_up_to):
            return None
        cost, sync_cost = (
            (inputs * one.input + outputs * one.output + one.request + 500) // 1000 for one in (price, sync_price)
        )
        shared = {
            "provider": normaliser.provider,
            "model": model,
            "route": normaliser.route.value,
            "rounds": normaliser.rounds,
        }
        fragment = (
            b',"usage":{"input_tokens":%d,"cached_tokens":0,"cache_write_tokens":0,'
            b'"output_tokens":%d,"reasoning_tokens":%d},"cost_usd":%b,"sync_cost_usd":%b,%b,"produced_at":'
            % (inputs, outputs, reasoning, money(cost).encode(), money(sync_cost).encode(), _dumps(shared)[1:-1])
        )
        row = RESULT_BYTES.pack(
            0,
            0,
            inputs,
            0,
            0,
            outputs,
            reasoning,
            0,
            self._writer.model_code(model),
            OUTCOME_CODE[Outcome.succeeded],
            0,
            ROUTE_CODE[normaliser.route],
            normaliser.rounds,
            FLAG_USAGE | FLAG_COST | FLAG_SYNC_COST | (FLAG_ESTIMATED if price.estimated else 0),
            cost,
            sync_cost,
            0,
            0,
        )
        usage = _Usage(fragment, row[_ROW_BEGIN.size : -_ROW_END.size])
        return _kept(self._usages, (model, inputs, outputs, reasoning), usage)

    def _moment(self, created: int) -> _Moment:
        moment = self._normaliser.moment_of(created)
        fragment = b'"%b","error":null,"provider_ids":{"batch":%b,"request":' % (
            iso(moment).encode(),
            _dumps(self._normaliser.batch_id),
        )
        return _kept(self._moments, created, _Moment(fragment, _ROW_END.pack(micros(moment))))


def _kept(by: dict[_K, _V], key: _K, value: _V) -> _V:
    if len(by) >= _KEPT_MAX:
        by.clear()
    by[key] = value
    return value
