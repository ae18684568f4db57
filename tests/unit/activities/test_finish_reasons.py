"""Why an OpenAI-shaped answer ended: a server that broke off in mid-answer, with status 200, has not answered."""

import pytest
from groupage.activities.answers import read_reply
from groupage.activities.answers_bedrock import read_output
from groupage.schemas import ErrorClass, Outcome

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
USAGE = {"prompt_tokens": 5, "completion_tokens": 4}


def chat(*reasons, content="half", **message):
    said = {"role": "assistant", "content": content, **message}
    return {"choices": [{"message": said, "finish_reason": reason} for reason in reasons], "usage": USAGE}


def completion(*reasons):
    return {"choices": [{"text": "half", "finish_reason": reason} for reason in reasons], "usage": USAGE}


@pytest.mark.parametrize(
    "reason", ["abort", "error", "insufficient_system_resource", {"type": "abort", "message": "x"}]
)
@pytest.mark.parametrize(("endpoint", "body"), [(CHAT, chat), (COMPLETIONS, completion)], ids=["chat", "completions"])
def test_RP_14_an_answer_that_the_server_broke_off_is_none_and_its_tokens_are_counted(endpoint, body, reason):
    for reasons in ([reason], ["stop", reason], [reason, "length"]):
        answer = read_reply(WIRE, endpoint, 200, body(*reasons))
        assert (answer.outcome, answer.error_class) == (Outcome.failed, ErrorClass.unknown)
        assert (answer.code in str(reason), bool(answer.code), answer.text) == (True, True, None)
        assert answer.usage.output_tokens == 4
    assert read_output(WIRE, chat(reason)).outcome is Outcome.failed


@pytest.mark.parametrize("reason", ["length", "model_length", "max_tokens"])
@pytest.mark.parametrize(("endpoint", "body"), [(CHAT, chat), (COMPLETIONS, completion)], ids=["chat", "completions"])
def test_RP_14_every_word_for_a_limit_is_truncated(endpoint, body, reason):
    answer = read_reply(WIRE, endpoint, 200, body("stop", reason))
    assert (answer.outcome, answer.error_class, answer.code) == (Outcome.truncated, None, reason)


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", None])
def test_the_usual_words_are_whole_answers(reason):
    for body in (chat(reason), chat(reason, reason)):
        answer = read_reply(WIRE, CHAT, 200, body)
        assert (answer.outcome, answer.error_class, answer.code, answer.text) == (Outcome.succeeded, None, "", "half")


@pytest.mark.parametrize("reason", ["repetition", {"type": "repetition"}])
def test_a_word_that_nobody_knows_is_told(reason):
    answer = read_reply(WIRE, CHAT, 200, chat(reason))
    assert (answer.outcome, answer.error_class, answer.code) == (Outcome.succeeded, None, "finish_repetition")


def test_an_answer_in_which_nothing_is_said_is_told():
    for body in (chat("stop", content=None), chat("tool_calls", content=None, tool_calls=[])):
        answer = read_reply(WIRE, CHAT, 200, body)
        assert (answer.outcome, answer.code, answer.text) == (Outcome.succeeded, "no_content", None)
    called = chat("tool_calls", content=None, tool_calls=[{"id": "a"}])
    assert read_reply(WIRE, CHAT, 200, called).code == ""
    assert read_reply(WIRE, CHAT, 200, chat("stop", content="")).code == ""
