"""What all adapters make alike of failed calls and of several batches with one tag."""

import pytest
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.batch_objects import furthest
from groupage.activities.providers.call_errors import after_refused_cancel, ambiguous, raise_create_failed
from groupage.activities.providers.sync_replies import failed_call, read_sync
from groupage.schemas import BatchPhase, BatchStatus, ErrorClass, Outcome
from groupage.schemas.errors import AmbiguousCreate, ProviderError

CALL = SyncCall("gk3v9q2-4f7xk2m9ab3cd-r0-s0-1", "/v1/chat/completions", b"{}", 30.0)


def batch(phase, name="b1", **more):
    return BatchStatus(batch_id=name, phase=phase, raw_state=phase.value, **more)


def refusal(status):
    return ProviderError("cancel of b1: no", error_class=ErrorClass.invalid, code="no", status=status)


@pytest.mark.parametrize(
    ("status", "now", "is_error"),
    [
        (409, batch(BatchPhase.completed), False),
        (400, batch(BatchPhase.cancelling), False),
        (400, batch(BatchPhase.finalizing, settles_as=BatchPhase.completed), False),
        (400, batch(BatchPhase.finalizing), True),
        (409, batch(BatchPhase.in_progress), True),
        (409, batch(BatchPhase.unknown), True),
        (404, batch(BatchPhase.completed), True),
        (None, batch(BatchPhase.completed), True),
    ],
)
async def test_PO_16_a_refused_cancel_is_no_error_where_the_batch_has_ended_or_is_being_cancelled(
    status, now, is_error
):
    looked = []

    async def look(batch_id):
        looked.append(batch_id)
        return now

    error = refusal(status)
    if is_error:
        with pytest.raises(ProviderError) as raised:
            await after_refused_cancel(error, look, "b1")
        assert raised.value is error
    else:
        assert await after_refused_cancel(error, look, "b1") is now
    assert looked == (["b1"] if status in {400, 409} else []), "only a refusal is looked after"


def test_an_error_is_never_its_own_cause():
    error = refusal(400)
    with pytest.raises(ProviderError) as same:
        raise_create_failed(error, error)
    assert same.value is error
    assert same.value.__cause__ is None
    with pytest.raises(AmbiguousCreate) as other:
        raise_create_failed(ambiguous(error), error)
    assert other.value.__cause__ is error


def test_of_several_batches_with_a_tag_the_furthest_is_kept_and_the_others_are_named():
    running, done = batch(BatchPhase.in_progress, "b1"), batch(BatchPhase.completed, "b2")
    assert furthest("tag", []) is None
    assert furthest("tag", [running]) is running
    kept = furthest("tag", [running, done])
    assert (kept.batch_id, kept.warning) == ("b2", "more batches carry the tag tag: b1 (in_progress)")
    assert furthest("tag", [running, done], "jobs").warning.startswith("more jobs carry")


def test_a_reply_that_is_no_json_is_no_answer_and_an_errors_text_is_read_as_it_is():
    seen = []

    def read(body):
        seen.append(body)
        return Answer(CALL.wire_id, Outcome.failed, ErrorClass.rate_limit, "slow")

    page = read_sync(CALL, 200, b"<html>", read, lambda: 5.0)
    assert (page.error_class, page.code, page.retry_after_s, seen) == (ErrorClass.transient, "not_json", None, [])
    assert read_sync(CALL, 502, b"<html>\xff", read, lambda: 5.0).retry_after_s == 5.0
    assert seen == ["<html>\ufffd"]


def test_a_call_that_raised_keeps_its_class_unless_told_otherwise():
    error = ProviderError("x" * 2000, error_class=ErrorClass.missing, code="gone", retry_after_s=3.0)
    answer = failed_call(CALL, error)
    assert (answer.wire_id, answer.error_class, answer.code) == (CALL.wire_id, ErrorClass.missing, "gone")
    assert (len(answer.message), answer.retry_after_s) == (1000, 3.0)
    assert failed_call(CALL, error, ErrorClass.invalid).error_class is ErrorClass.invalid
