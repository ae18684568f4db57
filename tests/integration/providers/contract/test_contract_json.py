"""JSON that only some readers read, or that most of them alter: an answer all the same, whole, and paid for once."""

import re

from everywhere import rows
from groupage.schemas import Outcome
from job_world import call_of, chat_body

ODD = {"kind": "odd_json", "share": 1}


def told(text):
    """An answer's text as the plan's `odd_json` leaves it: half a character stands behind its fingerprint."""
    return re.sub(r"(\[[0-9a-f]{16}\])", "\\1\ufffd", text)


@rows("model", lambda record: [(model,) for model in record.models])
async def test_CO_04_what_only_some_readers_of_json_refuse_is_an_answer_and_not_asked_for_again(world, emulator, model):
    emulator.faults(requests=[ODD])
    _, report = await world.harvested(await world.planned(6, model))
    assert (report.outcomes, report.waste_usd) == ({Outcome.succeeded: 6}, 0)
    await world.finalize(1)
    for n, row in enumerate(world.results()):
        assert row["text"] == told(world.answer(n, model))
        assert row["usage"]["input_tokens"] > 0
        assert row["body"]["odd"] == [None, None, None]


@rows("model", lambda record: [(model,) for model in record.models])
async def test_CO_04_by_sync_it_is_asked_for_once(world, emulator, model):
    emulator.faults(requests=[ODD])
    answer = await world.adapter.complete(call_of(chat_body(5, model)))
    assert answer.outcome is Outcome.succeeded, answer.message
    assert answer.text == told(world.answer(5, model))
    assert answer.usage.input_tokens > 0
    assert world.calls("sync") == 1


def callers(record):
    """Models whose calls of tools have values for arguments, and no text."""
    return [
        (model,) for model in record.tool_models if record.label not in {"openai", "azure"} and "openai" not in model
    ]


@rows("model", callers)
async def test_numbers_in_a_tool_call_keep_all_their_digits(world, emulator, model):
    emulator.faults(requests=[ODD])
    function = {"name": "look_up", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
    body = chat_body(2, model) | {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
    (call,) = (await world.adapter.complete(call_of(body))).tool_calls
    assert '{"number":9400111899223197428490,"word":' in call["function"]["arguments"]
