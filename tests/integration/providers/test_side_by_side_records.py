"""What is tried with all providers side by side looks where each keeps its things: else it would never find any."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from groupage.activities.providers.base import BatchProvider, Submission
from groupage.activities.registry import Context
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.schemas.ids import job_token, submission_tag, wire_id

from tests.side_by_side.providers import CHAT, PROVIDERS, Provider, Running, running, tag_of

TAG = submission_tag(job_token("abcdef", "tests", "records", "salt"), 0, 3)
REQUESTS = 10


def submission(provider: Provider, adapter: BatchProvider, folder: Path) -> Submission:
    path = folder / "input.jsonl"
    body = b'{"model":"%b","messages":[{"role":"user","content":"Question %d"}]}'
    lines = [adapter.render(wire_id(TAG, n), CHAT, body % (provider.model.encode(), n)) for n in range(REQUESTS)]
    path.write_bytes(b"".join(lines))
    return Submission(TAG, CHAT, provider.model, path, REQUESTS, datetime.now(UTC))


def wait_for_the_end(there: Running) -> None:
    give_up_at = time.monotonic() + 120
    while there.emulator.status()["batches_live"]:
        assert time.monotonic() < give_up_at, there.emulator.status()["batches"]
        time.sleep(0.05)


@pytest.mark.parametrize("label", PROVIDERS)
async def test_the_tag_the_input_and_the_cancel_button_of_each_provider_are_found(
    label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = PROVIDERS[label]
    with running(provider, tmp_path, turnaround="10m", cancel_takes="0s") as there:
        for name, value in there.variables.items():
            monkeypatch.setenv(name, value)
        settings = ActivitySettings(
            store_url="memory://", spool_dir=tmp_path, providers={provider.name: ProviderSettings()}
        )
        context = Context(settings)
        adapter = context.provider(provider.name)
        try:
            assert there.leftovers() == []
            what = submission(provider, adapter, tmp_path)
            files = await adapter.upload(what)
            there_is = [one["filename"] for one in there.leftovers() if one["purpose"] == "input"]
            assert bool(there_is) == bool(files) == provider.uploads
            assert all(TAG in name.replace("_", "-") for name in there_is), "a point of the chaos looks for it"
            made = await adapter.create(what, files)
            (batch,) = there.emulator.status()["batches"]
            assert tag_of(batch) == TAG
            there.cancel(batch["id"])
            wait_for_the_end(there)
            assert (await adapter.status(made.batch_id)).phase.ended
        finally:
            await context.close()
