"""prepare_job: an input becomes an accepted job, once, or it is clear why not."""

from datetime import UTC, datetime

import orjson
import pytest
from data_world import never
from groupage.activities.preparing import prepare_job
from groupage.schemas import JobPolicy, JobSpec
from groupage.schemas.activity_calls import PrepareJob
from groupage.schemas.errors import InputRefused, KeyConflict
from groupage.schemas.limits import PAYLOAD_MAX_BYTES, PROBLEMS_SHOWN


def test_an_input_is_accepted_counted_and_priced(world):
    prepared = world.requests(10)
    assert (prepared.requests, prepared.rejected, prepared.refused) == (10, 0, False)
    assert prepared.tokens > 0
    assert prepared.estimated_cost_usd is not None
    assert prepared.estimated_sync_cost_usd is not None
    assert 0 < prepared.estimated_cost_usd < prepared.estimated_sync_cost_usd
    assert prepared.job.token


def test_preparing_again_is_the_same_job(world):
    assert world.requests(5) == world.requests(5)


def test_rounds_that_an_earlier_run_of_the_job_planned_are_counted(world):
    assert world.requests(3).rounds == 0
    world.plan()
    world.plan(1)
    assert world.requests(3).rounds == 2


def test_SU_10_other_content_under_the_same_key_is_refused(world):
    world.requests(5)
    with pytest.raises(KeyConflict):
        world.requests(6)


def test_an_attempt_after_a_killed_one_needs_no_input_that_was_accepted(world):
    url = (world.inputs / "j.jsonl").as_uri()
    (world.inputs / "j.jsonl").write_bytes(orjson.dumps(world.request(0)))
    call = PrepareJob(spec=JobSpec(key="j", input_url=url), accepted_at=datetime.now(UTC))
    first = prepare_job(world.store, world.provider, call, world.spool, never())
    (world.inputs / "j.jsonl").unlink()
    assert prepare_job(world.store, world.provider, call, world.spool, never()) == first


def test_another_fingerprint_or_provider_is_refused(world):
    prepared = world.requests(5)
    with pytest.raises(KeyConflict):
        world.prepare_from(None, fingerprint="0" * 64)
    with pytest.raises(KeyConflict):
        world.prepare_from(None, provider="azure")
    assert world.prepare_from(None, fingerprint=prepared.fingerprint) == prepared


def test_IV_07_a_broken_line_is_named_with_its_number_and_the_job_is_refused(world):
    rows = [world.request(n) for n in range(50)]
    rows[42] = b'{"custom_id": "broken'
    prepared = world.prepare(rows)
    assert (prepared.requests, prepared.rejected, prepared.refused) == (50, 1, True)
    assert prepared.problems[0].startswith("line 43:")


def test_a_policy_may_skip_bad_lines(world):
    prepared = world.prepare([world.request(0), b"[1]"], policy=JobPolicy(on_invalid="skip"))
    assert (prepared.rejected, prepared.refused) == (1, False)


def test_TE_01_thousands_of_bad_lines_fit_into_one_small_message(world):
    prepared = world.prepare([b'{"custom_id": "' + b"x" * 3000] * 500)
    assert len(prepared.problems) == PROBLEMS_SHOWN
    assert len(prepared.model_dump_json()) < PAYLOAD_MAX_BYTES


def test_IV_24_an_empty_file_is_an_empty_job(world):
    for key, content in (("zero", b""), ("blank", b"\n\n")):
        path = world.inputs / f"{key}.jsonl"
        path.write_bytes(content)
        prepared = world.prepare_from(path.as_uri(), key=key)
        assert (prepared.requests, prepared.rejected, prepared.tokens) == (0, 0, 0)


@pytest.mark.parametrize("url", ["file:///no/such/file.jsonl", "nonsense://x/y", "s3://", None])
def test_an_input_that_cannot_be_is_refused_for_good(world, url):
    with pytest.raises(InputRefused) as refused:
        world.prepare_from(url)
    assert "input" in str(refused.value)


def test_an_unknown_model_has_no_estimate_and_says_so(world):
    prepared = world.prepare([world.request(0, model="my-own-model")])
    assert prepared.estimated_cost_usd is None
    assert prepared.cost_estimated
    assert (prepared.unpriced_requests, prepared.unpriced_models) == (1, ["my-own-model"])


def test_an_estimate_says_which_requests_it_leaves_out(world):
    rows = [world.request(0), *(world.request(n, model=f"my-own-model-{n % 7}") for n in range(1, 50))]
    prepared = world.prepare(rows)
    assert prepared.estimated_cost_usd is not None
    assert prepared.unpriced_requests == 49
    assert prepared.unpriced_models == [
        "my-own-model-1",
        "my-own-model-2",
        "my-own-model-3",
        "my-own-model-4",
        "my-own-model-5",
    ]
    assert prepared.unpriced == dict.fromkeys(prepared.unpriced_models, 7)


def test_what_is_too_few_for_a_batch_is_reckoned_by_sync_which_is_where_it_goes(world):
    whole = world.requests(10, key="whole")
    world.provider.limit = world.provider.limit.model_copy(update={"min_requests": 100})
    few = world.requests(10, key="few")
    assert few.estimated_cost_usd == whole.estimated_sync_cost_usd
    unsent = world.requests(10, key="unsent", policy=JobPolicy(escalate=False))
    assert unsent.estimated_cost_usd == 0
