"""prepare_job looks at what the provider can be told: the worker as the client, and where the client could not know."""

from datetime import UTC, datetime

import pytest
from data_world import never
from groupage.activities.preparing import prepare_job
from groupage.schemas import JobSpec
from groupage.schemas.activity_calls import PrepareJob
from groupage.schemas.errors import InputRefused


def _row(n, **body):
    return {
        "custom_id": f"id-{n}",
        "body": {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "x"}], **body},
    }


def test_a_line_that_the_provider_cannot_be_told_is_named_and_the_job_refused(world):
    prepared = world.prepare([_row(0), _row(1, seed=7)], provider="anthropic")
    assert (prepared.requests, prepared.rejected, prepared.refused) == (2, 1, True)
    assert prepared.problems[0].startswith("line 2:")
    assert "seed" in prepared.problems[0]
    assert "inexpressible" in prepared.problems[0]


def test_a_provider_with_a_name_of_its_own_is_known_by_its_kind(world):
    def prepare(key, *, dialect):
        spec = JobSpec(key=key, provider="claude-eu")  # no input_url: the client has accepted the input
        call = PrepareJob(spec=spec, accepted_at=datetime.now(UTC))
        return prepare_job(world.store, world.provider, call, world.spool, never(), dialect=dialect)

    world.prepare([_row(0), _row(1, seed=7)], key="by-client", provider="claude-eu")
    with pytest.raises(InputRefused, match=r"line 2: .*seed"):
        prepare("by-client", dialect="anthropic")
    assert prepare("by-client", dialect="openai").rejected == 0
    world.prepare([_row(0)], key="fine", provider="claude-eu")
    assert prepare("fine", dialect="anthropic").rejected == 0


def test_an_endpoint_that_the_provider_has_no_batches_for_is_refused_before_anything_is_sent(world, monkeypatch):
    """Groq takes chat alone; what a catalog is unsure of is let through (Azure's embeddings)."""
    rows = [{"custom_id": "a", "url": "/v1/embeddings", "method": "POST", "body": {"model": "m", "input": "x"}}]
    for name, key in (("groq", "refused"), ("azure", "unsure"), ("openai", "fine")):
        monkeypatch.setattr(world.provider, "name", name, raising=False)
        if name == "groq":
            with pytest.raises(
                InputRefused, match=r"groq takes no /v1/embeddings in batches: it takes /v1/chat"
            ) as caught:
                world.prepare(rows, provider=name, key=key)
            assert "catalog" in caught.value.hint
        else:
            assert world.prepare(rows, provider=name, key=key).requests == 1
