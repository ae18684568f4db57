"""QU-06: trouble with the account is told in words, and so is what a request said that is quoted: they are told apart."""

import orjson
import pytest
from groupage.activities.answers import read_batch_line
from groupage.activities.answers_anthropic import read_result_line
from groupage.activities.answers_bedrock import read_line as read_bedrock_line
from groupage.activities.answers_gemini import read_line as read_gemini_line
from groupage.activities.answers_vertex import read_line as read_vertex_line
from groupage.activities.own_words import own_words
from groupage.schemas import ErrorClass
from hypothesis import given
from hypothesis import strategies as st

WIRE = "gabcdef-abcdefghijklm-r0-s0-1"
CHAT = "/v1/chat/completions"


def openai(message, status=400, **more):
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None, "param": None, **more}}
    row = {"custom_id": WIRE, "response": {"status_code": status, "body": body}, "error": None}
    return read_batch_line(orjson.dumps(row), CHAT)


def anthropic(message, kind="invalid_request_error"):
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return read_result_line(orjson.dumps({"custom_id": WIRE, "result": {"type": "errored", "error": error}}))


def bedrock(message, status=400):
    row = {"recordId": WIRE, "modelInput": {}, "error": {"errorCode": status, "errorMessage": message}}
    return read_bedrock_line(orjson.dumps(row), "/invoke")


def gemini(message, code=3):
    return read_gemini_line(
        orjson.dumps({"key": WIRE, "error": {"code": code, "message": message}}), "/generateContent"
    )


def vertex(message, code=3):
    row = {"request": {"labels": {"groupage": WIRE}}, "status": {"code": code, "message": message}}
    return read_vertex_line(orjson.dumps(row), "/generateContent")


LITELLM = 'litellm.BadRequestError: AnthropicException - {"type":"error","error":{"type":"invalid_request_error","message":"%s"}}'
PASSED_ON = "Error code: 400 - {'error': {'message': '%s', 'type': 'invalid_request_error'}}"
LOW = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."

TROUBLE = [
    openai("You exceeded your current quota, please check your plan and billing details."),
    openai("Access denied, please make sure your account is in good standing."),
    openai("This organization has been disabled."),
    openai(LOW),
    openai("Insufficient Balance"),
    openai("The customers' account's credit balance isn't enough; see 'billing'."),
    openai(LITELLM % LOW),
    openai(PASSED_ON % LOW),
    openai("You exceeded your current quota", 429, code="insufficient_quota"),
    anthropic(LOW),
    anthropic("You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."),
    anthropic("This organization has been disabled."),
    anthropic("There is a problem with the organization's billing.", "billing_error"),
    bedrock(
        "Model access is denied due to INVALID_PAYMENT_INSTRUMENT:A valid payment instrument must be provided.", 403
    ),
    bedrock("Your AWS Marketplace subscription for this model cannot be completed at this time.", 403),
    bedrock(
        "Model access is denied due to IAM user or service role is not authorized to perform the required AWS "
        "Marketplace actions (aws-marketplace:ViewSubscriptions, aws-marketplace:Subscribe) to enable access.",
        403,
    ),
    gemini("Your prepayment credits are depleted. Please go to AI Studio to manage your billing.", 8),
    gemini("Your prepayment credits are depleted. Please go to AI Studio to manage your billing.", 13),
    gemini("Quota exceeded for metric: generate_content_free_tier_requests, limit: 0", 8),
    gemini("Your project has exceeded its monthly spending cap.", 8),
    gemini("API key not valid. Please pass a valid API key."),
    gemini("User location is not supported for the API use.", 9),
    gemini("Please enable billing on project #1", 9),
    vertex("Billing account for project 'x' is not found.", 9),
    vertex("This API method requires billing to be enabled. Please enable billing on project #1.", 7),
]


@pytest.mark.parametrize("answer", TROUBLE, ids=lambda answer: answer.message[:40])
def test_QU_06_what_the_server_says_of_the_account_is_the_accounts(answer):
    assert answer.error_class is ErrorClass.account


PYDANTIC = (
    "[{'type': 'missing', 'loc': ('body', 'messages', 0, 'role'), 'msg': 'Field required', 'input': {'content': '%s'}}]"
)
VALIDATION = "1 validation error for ChatCompletionRequest\nmessages.0\n  Input should be valid [type=x, input_value={'a': '%s'}, input_type=dict]"
QUOTING = [
    openai(PYDANTIC % "Why is my credit balance negative?", type="BadRequestError", code=400),
    openai(PYDANTIC % "isn't it 'insufficient funds'? } ]", type="BadRequestError", code=400),
    openai((VALIDATION % "out of credit")[:120]),
    openai("Invalid value: 'insufficient funds'. Supported values are: 'system', 'assistant' and 'user'."),
    openai("Invalid value: `insufficient balance of the account`.", param="messages[0].role", code="invalid_value"),
    openai("credit balance is not of type object", param="tools[0].name"),
    anthropic("tools.0.custom.name: String 'show credit balance' should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    anthropic('messages.1: unexpected role "spend limit": use user'),
    bedrock("Malformed input request: #/metadata: extraneous key [marketplace_id] is not permitted, please reformat."),
    bedrock("Malformed input request: #: extraneous key [payment instrument] is not permitted"),
    bedrock("Malformed input request: marketplace_id is not a field"),
    gemini(
        "Invalid JSON payload received. Unknown name \"spend_limit\" at 'tools[0]': Cannot find field. 'spending limit'"
    ),
    gemini("Proto field is not repeating, cannot start list: limit: 0 in spend limit"),
    gemini("Invalid value at 'contents[0].role', \"please enable billing\""),
    vertex('Unable to parse "the billing account is wrong" as a number'),
]


@pytest.mark.parametrize("answer", QUOTING, ids=lambda answer: answer.message[:40])
def test_QU_06_words_of_the_request_that_an_error_quotes_are_not_the_accounts(answer):
    assert answer.error_class is ErrorClass.invalid


@given(st.text(st.characters(exclude_characters="'\"`[]{}")), st.sampled_from(["'%s'", '"%s"', "`%s`", "[%s]", "{%s}"]))
def test_what_stands_in_quotation_marks_or_brackets_is_not_the_servers(text, marks):
    said = own_words(f"Invalid value: {marks % text}. Try again")
    assert said.split() == ["invalid", "value:", ".", "try", "again"]


@given(st.text(st.characters(exclude_characters="'\"`[]{}")))
def test_a_text_that_quotes_nothing_is_the_servers(text):
    assert own_words(text) == text[:4000].lower()


@given(st.text(max_size=200))
def test_no_text_is_too_odd(text):
    assert isinstance(own_words(text * 40), str)
