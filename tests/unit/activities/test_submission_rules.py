"""The rules beside the calls: windows of doubt, pauses between looks, verdicts on orphans, failures."""

import dataclasses
import errno
from datetime import UTC, datetime, timedelta

import pytest
from groupage.activities.failures import DEFINITIVE, reported, retried, retry_delay_s, to_application_error
from groupage.activities.intents import (
    Intent,
    IntentEnd,
    IntentLog,
    Window,
    claim,
    new_intent,
    put_end,
    read_log,
    settled_at,
    superseded,
)
from groupage.activities.providers.base import RemoteObject
from groupage.activities.sweep import JobView, Known, Verdict, judge
from groupage.activities.waiting import Watch, next_pause_s
from groupage.schemas import BatchPhase, ErrorClass, JobRef, ShardRef
from groupage.schemas.errors import AmbiguousCreate, KeyConflict, ProviderError, StoreError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.store.objects import Store, open_store
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TOKEN = "gabcdef-abcdefghijklm"
SHARD = ShardRef(job=JobRef(tenant="t", key="k", token=TOKEN, provider="openai"), round=0, shard=3)
WINDOW = Window(120.0, 60.0)


def intent(number=0, at=NOW, **fields):
    return Intent(number=number, nonce="n", at=at, first_at=at, **fields)


# ----- the chain of intents -----


def test_no_call_can_end_after_its_window():
    for window in (WINDOW, Window(40.0, 600.0), Window(600.0, 60.0)):
        assert window.post_within_s + window.create_timeout_s <= window.window_s


@given(window=st.floats(0.1, 3600), timeout=st.floats(0.1, 3600), sent=st.floats(0, 1), took=st.floats(0, 1))
def test_SU_02_absence_is_proven_only_after_the_latest_call_and_a_share_for_visibility(window, timeout, sent, took):
    bounds = Window(window, timeout)
    ended = NOW + timedelta(seconds=sent * bounds.post_within_s + took * bounds.create_timeout_s)
    killed = settled_at(IntentLog(intent()), bounds)
    told = settled_at(IntentLog(intent(), IntentEnd(outcome="unknown", at=ended)), bounds)
    for moment in (killed, told):
        assert moment >= NOW + timedelta(seconds=window)
        assert moment - ended >= timedelta(seconds=window / 4) - timedelta(microseconds=5)


@pytest.mark.parametrize("outcome", ["created", "refused", "not_sent"])
def test_what_is_known_needs_no_window(outcome):
    assert settled_at(IntentLog(intent(), IntentEnd(outcome=outcome, at=NOW)), WINDOW) is None
    assert settled_at(IntentLog(), WINDOW) is None
    assert settled_at(IntentLog(intent(kind="closed")), WINDOW) is None


def test_of_two_attempts_one_gets_the_intent_and_the_chain_is_read_from_its_end():
    store = open_store("memory://")
    first = new_intent(read_log(store, SHARD), NOW, attempt=1, files=["file-1"])
    other = new_intent(read_log(store, SHARD), NOW, attempt=2, files=["file-2"])
    assert claim(store, SHARD, first)
    assert not claim(store, SHARD, other)
    assert read_log(store, SHARD) == IntentLog(first)
    assert not superseded(store, SHARD, first)

    put_end(store, SHARD, 0, IntentEnd(outcome="not_sent", at=NOW))
    later = new_intent(read_log(store, SHARD), NOW + timedelta(hours=1), attempt=3, files=[])
    assert (later.number, later.first_at) == (1, NOW)
    assert claim(store, SHARD, later)
    assert superseded(store, SHARD, first)
    assert read_log(store, SHARD).end is None


def test_a_claim_whose_answer_was_lost_is_ours_all_the_same():
    class Forgetful(Store):
        def put_new(self, key, data):
            super().put_new(key, data)
            return False

    store = Forgetful("memory://", open_store("memory://")._inner)
    mine = new_intent(IntentLog(), NOW, attempt=1, files=[])
    assert claim(store, SHARD, mine)
    assert not claim(store, SHARD, new_intent(IntentLog(), NOW, attempt=2, files=[]))


def test_a_chain_is_doubtful_unless_one_call_made_one_known_batch():
    created = IntentEnd(outcome="created", at=NOW, batch_id="b")
    assert not IntentLog().doubtful
    assert not IntentLog(intent(), created).doubtful
    assert IntentLog(intent()).doubtful
    assert IntentLog(intent(number=1), created).doubtful


# ----- pauses between looks -----


def watch(**fields):
    return Watch(looked_at=NOW, **{"phase": BatchPhase.in_progress, **fields})


def pause(seen, waited_s, poll_s=30.0, max_poll_s=600.0):
    return next_pause_s(seen, submitted_at=NOW - timedelta(seconds=waited_s), poll_s=poll_s, max_poll_s=max_poll_s)


def test_the_pause_grows_slowly_from_the_poll_interval_to_the_longest():
    assert [pause(watch(), waited) for waited in (0, 60, 600, 1200, 7200, 86_400)] == [30, 30, 30, 60, 360, 600]


def test_the_pause_shrinks_near_completion():
    near = watch(total=1000, completed=990, failed=0, pace_per_s=0.1)
    assert pause(near, 36_000) == 50.0
    assert pause(watch(total=1000, completed=10, failed=0, pace_per_s=0.1), 36_000) == 600
    assert pause(watch(phase=BatchPhase.finalizing), 36_000) == 60


@given(
    waited=st.floats(-1e6, 1e7), poll=st.floats(0.01, 3600), most=st.floats(1, 3600), total=st.integers(-1, 10**6),
    completed=st.integers(-1, 10**6), pace=st.floats(0, 1e5), phase=st.sampled_from(list(BatchPhase)),
)  # fmt: skip
def test_the_pause_is_never_shorter_than_the_poll_interval(waited, poll, most, total, completed, pace, phase):
    seen = watch(total=total, completed=completed, pace_per_s=pace, phase=phase)
    assert poll <= pause(seen, waited, poll, most) <= max(poll, most)


# ----- orphans -----


def remote(kind="batch", *, ended=False, age_s=7200.0, tag=f"{TOKEN}-r0-s3"):
    return RemoteObject(kind, "x1", tag, ended, NOW - timedelta(seconds=age_s))


def verdict(found, view, recorded=""):
    known = Known({TOKEN: view}, {found.tag: recorded})
    return judge(found, known, now=NOW, grace=timedelta(hours=1))[0]


@pytest.mark.parametrize(
    ("view", "live", "file"),
    [
        (JobView.unknown, Verdict.cancel, Verdict.delete),
        (JobView.finished, Verdict.cancel, Verdict.delete),
        (JobView.running, Verdict.keep, Verdict.keep),
        (JobView.stranded, Verdict.tell, Verdict.keep),
    ],
)
def test_orphans_are_judged_by_what_their_job_is(view, live, file):
    assert verdict(remote(), view) is live
    assert verdict(remote("file", ended=True), view) is file
    assert verdict(remote(ended=True), view) is Verdict.keep


def test_a_running_jobs_batch_goes_only_if_its_shard_has_another():
    assert verdict(remote(), JobView.running, recorded="x1") is Verdict.keep
    assert verdict(remote(), JobView.running, recorded="") is Verdict.keep
    assert verdict(remote(), JobView.running, recorded="x2") is Verdict.cancel


@given(view=st.sampled_from(list(JobView)), kind=st.sampled_from(["batch", "file"]), age=st.floats(-100, 3599))
def test_what_is_young_or_not_ours_is_never_touched(view, kind, age):
    assert verdict(remote(kind, age_s=age), view) is Verdict.keep
    assert verdict(remote(kind, tag="somebody-else"), view) is Verdict.keep
    timeless = RemoteObject(kind, "x1", f"{TOKEN}-r0-s3", False, None)
    assert verdict(timeless, view) is Verdict.keep


# ----- failures -----


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_each_class_is_retried_or_not_by_our_table(error_class):
    failure = to_application_error(ProviderError("no", error_class=error_class, code="c"), 1)
    assert failure.type == f"provider.{error_class}"
    assert failure.non_retryable is (error_class in DEFINITIVE)
    assert failure.details[0].error_class is error_class
    assert (failure.next_retry_delay is None) is failure.non_retryable
    assert not retried(ProviderError("no", error_class=error_class), 1).non_retryable


def test_messages_are_cut_to_what_a_failure_may_carry():
    failure = to_application_error(AmbiguousCreate("x" * 9000, error_class=ErrorClass.transient), 1)
    assert len(failure.message) == FAILURE_MESSAGE_MAX
    assert len(failure.details[0].message) == FAILURE_MESSAGE_MAX


def test_after_an_ambiguous_create_the_next_look_is_soon_however_often_was_waited_before():
    failure = to_application_error(AmbiguousCreate("lost", error_class=ErrorClass.transient), 12)
    assert failure.next_retry_delay == timedelta(seconds=5)


@given(
    attempt=st.integers(0, 10_000), wish=st.none() | st.floats(0, 5000), error_class=st.sampled_from(list(ErrorClass))
)
def test_SDK_06_the_server_is_never_asked_sooner_than_it_wished(attempt, wish, error_class):
    assert retry_delay_s(error_class, wish, attempt) >= max(wish or 0, 1)


@pytest.mark.parametrize(
    ("name", "attempt", "shown"),
    [("collect_batch", 1, False), ("collect_batch", 3, True), ("submit_batch", 3, True), ("finalize_job", 9, False)],
)
def test_a_full_disk_is_retried_and_then_shown_by_the_shards_workflow(name, attempt, shown):
    def full():
        with reported():
            raise OSError(errno.ENOSPC, "No space left on device", "/spool/x")

    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, activity_type=name, attempt=attempt)
    with pytest.raises(ApplicationError) as failure:
        environment.run(full)
    assert (failure.value.type, failure.value.non_retryable) == ("worker.disk_full", shown)
    assert failure.value.details[0].code == "disk_full"
    assert "/spool/x" in failure.value.message


def test_other_errors_of_the_disk_stay_what_they_are():
    with pytest.raises(PermissionError), reported():
        raise PermissionError(errno.EACCES, "Permission denied")


def test_the_store_is_retried_and_a_conflict_is_not():
    assert not to_application_error(StoreError("down"), 1).non_retryable
    conflict = to_application_error(KeyConflict("other content"), 1)
    assert (conflict.type, conflict.non_retryable) == ("input.conflict", True)
