"""Messages read what people write and stay small."""

from datetime import timedelta

import pytest
from groupage.schemas import LONGEST, JobPolicy, JobSpec, parse_duration
from groupage.schemas.activity_calls import ALL_CALLS
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("6h", 21600), ("1d12h", 129600), ("500ms", 0.5), ("1.5h", 5400)]
)
def test_durations_are_written_as_people_write_them(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "6", "h", "6 hours", "6h later", "-6h", "six"])
def test_a_text_that_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write 90s, 30m, 6h"):
        parse_duration(text)


@pytest.mark.parametrize("number", [6, 6.5, 0, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: JobSpec(key="k", deadline=n),
        lambda n: JobSpec.model_validate({"key": "k", "deadline": n}),
        lambda n: JobPolicy(settle=n),
        lambda n: JobPolicy(turnaround=n),
        lambda n: JobSpec.model_validate({"key": "k", "policy": {"effective_for": n}}),
    ],
)
def test_a_bare_number_is_no_duration_and_is_told_like_the_text(make, number):
    with pytest.raises(ValidationError, match=f"{number} is not a duration: write 90s, 30m, 6h"):
        make(number)


def test_what_stands_in_histories_and_in_the_store_is_read_as_it_was():
    """Numbers of older clients of other languages, and durations that nobody may ask for any more."""
    spec = JobSpec.model_validate_json('{"key": "k", "deadline": 6, "policy": {"effective_for": "P9999999D"}}')
    assert spec.deadline == timedelta(seconds=6)
    assert spec.policy.effective_for == LONGEST


@pytest.mark.parametrize("text", ["9999999d", "3651d", "1" * 400 + "d"])
@pytest.mark.parametrize("field", ["deadline", "effective_for", "settle", "turnaround"])
def test_a_duration_that_ends_after_all_calendars_is_refused(field, text):
    given = {"deadline": text} if field == "deadline" else {"policy": {field: text}}
    with pytest.raises(ValidationError, match="too long: at most 3650d"):
        JobSpec.model_validate({"key": "k"} | given)


def test_a_job_spec_reads_plain_json_as_typed_at_the_temporal_cli():
    spec = JobSpec.model_validate_json(
        '{"key": "labels-1", "provider": "openai", "input_url": "file:///data/in.jsonl", "deadline": "6h",'
        ' "policy": {"max_cost_usd": "12.50", "poll": "1m"}, "field_of_a_newer_version": 1}'
    )
    assert spec.deadline == timedelta(hours=6)
    assert spec.policy.poll == timedelta(minutes=1)
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    "bad", ['{"key": "a/b"}', '{"key": "a", "deadline": "-6h"}', '{"key": "a", "deadline": 0}', "{}"]
)
def test_a_spec_that_cannot_run_is_refused(bad):
    with pytest.raises(ValidationError):
        JobSpec.model_validate_json(bad)


def test_a_spec_with_every_field_filled_stays_far_below_the_payload_limit():
    spec = JobSpec(
        key="k" * 128, labels={f"label-{i}": "x" * 60 for i in range(50)}, policy=JobPolicy(max_cost_usd="1")
    )
    assert len(spec.model_dump_json()) < PAYLOAD_MAX_BYTES


def test_activity_names_are_unique():
    assert len({call.name for call in ALL_CALLS}) == len(ALL_CALLS)
