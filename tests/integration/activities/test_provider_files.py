"""Bytes up and down: nothing is decoded, nothing that is cut passes for whole, memory stays flat."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from groupage.activities.providers.base import SyncCall
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_wire_id
from provider_world import ENDPOINT, attempts_of

QUESTION = b'{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hello"}]}'


async def finished(world, emulator, requests=10):
    shard = world.shard(requests)
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    status, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    return shard, status


def lines_of(path):
    return path.read_bytes().split(b"\n")[:-1]


async def test_results_come_back_line_by_line_under_our_ids(world, emulator, tmp_path):
    shard, status = await finished(world, emulator)
    (file,) = world.adapter.result_files(status)
    assert file.kind == "output"
    size = await world.adapter.download(file, tmp_path / "out")
    assert size == (tmp_path / "out").stat().st_size
    answers = [world.adapter.read_line(line, ENDPOINT) for line in lines_of(tmp_path / "out")]
    assert {answer.outcome for answer in answers} == {Outcome.succeeded}
    assert sorted(decode_wire_id(answer.wire_id).index for answer in answers) == list(range(10))
    assert {decode_wire_id(answer.wire_id).tag for answer in answers} == {shard.tag}
    assert all(answer.text and answer.usage.output_tokens for answer in answers)


async def test_RP_04_a_body_cut_in_its_middle_is_an_error_and_comes_whole_the_next_time(world, emulator, tmp_path):
    _, status = await finished(world, emulator)
    (file,) = world.adapter.result_files(status)
    emulator.faults(calls=[{"call": "files.content", "action": "cut", "at": 0.6, "times": 1}])
    with pytest.raises(ProviderError) as failure:
        await world.adapter.download(file, tmp_path / "out")
    assert failure.value.error_class is ErrorClass.transient
    await world.adapter.download(file, tmp_path / "out")
    assert len(lines_of(tmp_path / "out")) == 10


async def test_RP_20_a_wrong_charset_changes_no_byte(world, emulator, tmp_path):
    _, status = await finished(world, emulator)
    (file,) = world.adapter.result_files(status)
    await world.adapter.download(file, tmp_path / "plain")
    emulator.faults(calls=[{"call": "files.content", "action": "content_type"}])
    await world.adapter.download(file, tmp_path / "declared")
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "declared").read_bytes()


@pytest.mark.parametrize("kind", ["status_zero", "empty_body", "invalid_utf8", "malformed", "not_an_object"])
async def test_RP_11_RP_12_an_odd_line_never_spoils_the_others(world, emulator, tmp_path, kind):
    emulator.faults(requests=[{"kind": kind, "lines": [3]}])
    _, status = await finished(world, emulator)
    answers = []
    for file in world.adapter.result_files(status):
        path = tmp_path / file.kind
        await world.adapter.download(file, path)
        answers += [world.adapter.read_line(line, ENDPOINT) for line in lines_of(path)]
    assert len(answers) == 10
    odd = [answer for answer in answers if answer.outcome is not Outcome.succeeded]
    assert len(odd) == 1
    if kind == "status_zero":
        assert (odd[0].outcome, odd[0].error_class) == (Outcome.failed, ErrorClass.unknown)
    else:
        assert odd[0].error_class is ErrorClass.unreadable


async def test_QU_06_a_credit_message_on_a_line_is_about_the_account(world, emulator, tmp_path):
    emulator.faults(requests=[{"kind": "credit", "lines": [1, 2, 3, 4, 5, 6]}])
    _, status = await finished(world, emulator)
    errors = next(file for file in world.adapter.result_files(status) if file.kind == "errors")
    await world.adapter.download(errors, tmp_path / "errors")
    classes = [world.adapter.read_line(line, ENDPOINT).error_class for line in lines_of(tmp_path / "errors")]
    assert classes == [ErrorClass.account] * 6


async def test_a_file_that_is_gone_is_deleted_without_complaint(world):
    await world.adapter.delete("file", "file-that-never-was")
    await world.adapter.delete("batch", "batch_cannot_be_deleted")


async def test_a_sync_call_brings_the_answer(world):
    answer = await world.adapter.complete(SyncCall("w-1", ENDPOINT, QUESTION, timeout_s=30))
    assert (answer.wire_id, answer.outcome) == ("w-1", Outcome.succeeded)
    assert answer.text
    assert answer.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        ({"action": "error", "status": 429, "retry_after": 5}, ErrorClass.rate_limit),
        ({"action": "error", "status": 503}, ErrorClass.transient),
        ({"action": "error", "status": 529}, ErrorClass.transient),
        ({"action": "error", "status": 401}, ErrorClass.account),
        ({"action": "error", "status": 429, "code": "insufficient_quota"}, ErrorClass.account),
        ({"action": "error", "status": 400}, ErrorClass.invalid),
        ({"action": "html"}, ErrorClass.transient),
        ({"action": "drop_after"}, ErrorClass.transient),
        ({"action": "cut"}, ErrorClass.transient),
    ],
)
async def test_SDK_06_TE_09_a_failed_sync_call_is_classified_by_us_and_sent_once(world, emulator, fault, error_class):
    emulator.faults(calls=[{"call": "sync", **fault}])
    answer = await world.adapter.complete(SyncCall("w-1", ENDPOINT, QUESTION, timeout_s=30))
    assert (answer.outcome, answer.error_class) == (Outcome.failed, error_class)
    assert answer.retry_after_s == fault.get("retry_after")
    assert emulator.state()["calls"]["sync"] == 1


async def test_SDK_07_a_hanging_sync_call_ends_at_its_timeout(world, emulator):
    emulator.faults(calls=[{"call": "sync", "action": "slow", "seconds": "20s"}])
    answer = await world.adapter.complete(SyncCall("w-1", ENDPOINT, QUESTION, timeout_s=1.0))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, "timeout")


def test_a_200_MB_file_goes_up_and_down_in_flat_memory(emulator, tmp_path):
    """In a process of its own, so that its peak is its own. The SDK alone, given a path, takes 600 MB."""
    script = Path(__file__).with_name("transfer_memory.py")
    run = subprocess.run(
        [sys.executable, str(script), emulator.base_url, str(tmp_path)], capture_output=True, check=True, timeout=280
    )
    grown = orjson.loads(run.stdout)
    assert grown["bytes"] == 200_000_000
    assert grown["upload_mb"] < 40, grown
    assert grown["download_mb"] < 40, grown
