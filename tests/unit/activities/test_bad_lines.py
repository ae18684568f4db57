"""Which lines of a refused batch are at fault, in the words of each provider that names them."""

import anthropic
import httpx2
import pytest
from groupage.activities.failures import batch_error
from groupage.activities.providers.anthropic_errors import translate
from groupage.activities.providers.bad_lines import GROUPS_MAX, LINES_MAX, bad_lines, request_paths
from groupage.activities.providers.openai_batches import read_batch
from groupage.schemas import BadLines, BatchError, BatchPhase, BatchStatus, ErrorClass
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from pydantic_core import to_json


def failed(*entries: dict) -> BatchError:
    status = read_batch({"id": "batch_1", "status": "failed", "errors": {"object": "list", "data": list(entries)}})
    assert status.phase is BatchPhase.failed
    assert status.error is not None
    return status.error


def entry(line, code="invalid_json_line", message="not parseable"):
    return {"code": code, "message": message, "line": line, "param": None}


def test_lines_with_one_reason_are_kept_together():
    error = failed(entry(2), entry(7, "invalid_type", "no object"), entry(9))
    assert error.error_class is ErrorClass.invalid
    assert error.bad_lines == [
        BadLines(lines=[2, 9], code="invalid_json_line", message="not parseable"),
        BadLines(lines=[7], code="invalid_type", message="no object"),
    ]
    assert error.message == "line 2 of the batch's input: not parseable (and 2 more)"


@pytest.mark.parametrize(
    ("entries", "of_all"),
    [
        ([entry(1, "model_not_found", "no such model")], True),
        ([entry(None, "empty_file", "empty")], True),
        ([entry(2), entry(None)], False),
        ([entry(0)], False),
        ([entry(True)], False),
        ([entry(None)], False),
    ],
    ids=["holds for all lines", "of the file", "one without a line", "counted from 0", "no number", "no line"],
)
def test_where_the_lines_do_not_tell_nobody_is_named(entries, of_all):
    error = failed(*entries)
    assert (error.error_class, error.bad_lines, error.of_all_lines) == (ErrorClass.invalid, [], of_all)


def test_a_code_that_nobody_knows_is_the_lines_fault_if_it_names_lines():
    assert failed(entry(3, "brand_new", "?")).error_class is ErrorClass.invalid
    assert failed(entry(None, "brand_new", "?")).error_class is ErrorClass.unknown


@pytest.mark.parametrize("code", ["too_many_inputs", "too_many_tasks", "too_many_requests"])
def test_QU_07_a_file_that_holds_too_many_is_too_large_and_the_line_at_which_it_was_seen_not_at_fault(code):
    error = failed(entry(50_001, code, "too many"))
    assert (error.error_class, error.bad_lines) == (ErrorClass.too_large, [])
    assert failed(entry(3), entry(50_001, code, "too many")).bad_lines == []


@pytest.mark.parametrize(
    ("code", "found"), [("input_no_permissions", ErrorClass.account), ("input_modified", ErrorClass.transient)]
)
def test_a_file_that_cannot_be_read_as_it_was_uploaded_is_no_lines_fault(code, found):
    error = failed(entry(None, code, "see the documentation"))
    assert (error.error_class, error.bad_lines, error.of_all_lines) == (found, [], True)


def test_an_account_without_credit_is_no_lines_fault():
    assert failed(entry(3, "insufficient_quota", "You exceeded your current quota")).bad_lines == []


def test_the_many_lines_of_a_bad_file_fit_through_temporal():
    long = "é" * 3000
    entries = [entry(n, f"code_{n % 20}{long}", f"{n % 20}{long}") for n in range(1, 50_000)]
    error = failed(*entries)
    assert len(error.bad_lines) == GROUPS_MAX
    assert sum(len(bad.lines) for bad in error.bad_lines) == LINES_MAX
    status = BatchStatus(batch_id="b", phase=BatchPhase.failed, raw_state="failed", error=error)
    assert len(to_json(status)) < PAYLOAD_MAX_BYTES


def test_anthropic_names_requests_by_their_path_from_0():
    text = "requests.3.params.max_tokens: Field required; requests.11.custom_id: too long; requests: 1000 of them"
    assert request_paths(text) == [4, 12]
    request = httpx2.Request("POST", "https://api.anthropic.com/v1/messages/batches")
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    error = anthropic.BadRequestError("x", response=httpx2.Response(400, request=request, json=body), body=body)
    failure = batch_error(translate(error, "create of g"))
    assert failure.error_class is ErrorClass.invalid
    assert [bad.lines for bad in failure.bad_lines] == [[4, 12]]


def test_no_lines_are_no_blame():
    assert bad_lines([]) == []
