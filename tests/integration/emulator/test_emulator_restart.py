"""A killed emulator goes on where it was: nothing that was acknowledged is lost."""

import asyncio

import openai
import pytest
from emulator_world import body, check_answers, input_file, lines, numbers, submit, wait
from openai import AsyncOpenAI


def sdk(emulator):
    return AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0)


async def test_files_batches_ledger_and_clock_survive_a_kill(start):
    emulator = start(turnaround="1h")
    async with sdk(emulator) as client:
        batch = await submit(client, input_file(50), metadata={"tag": "t"})
        await client.chat.completions.create(**body(7))
        emulator.advance("30m")
        before = emulator.status()
        address = emulator.base_url
        emulator.kill()
        emulator.start()
        assert emulator.base_url == address
        after = emulator.status()
        assert after["files"] == before["files"]
        assert after["now"] >= before["now"]
        assert after["sync_calls"] == 1
        emulator.advance("1h")
        found = await lines(client, (await wait(client, batch.id)).output_file_id)
        check_answers(found)
        assert numbers(found) == list(range(50))
        assert emulator.ledger()["batch"]["billed"] == 50
        assert emulator.stop() == 0


async def test_work_that_was_cut_off_is_done_again_once(start):
    emulator = start(turnaround="0s")
    async with sdk(emulator) as client:
        batch = await submit(client, input_file(5000))
        for _ in range(3):
            await asyncio.sleep(0.1)
            emulator.kill()
            emulator.start()
        done = await wait(client, batch.id)
        assert done.request_counts.completed == 5000
        assert numbers(await lines(client, done.output_file_id)) == list(range(5000))
        summary = emulator.ledger()
        assert summary["batch"]["billed"] == summary["questions_paid"] == 5000
        assert leftovers(emulator) == []


async def test_faults_that_have_struck_do_not_strike_again_after_a_restart(start):
    plan = {
        "requests": [{"kind": "http", "share": 1, "times": 1}],
        "calls": [{"call": "batches.list", "action": "error", "nth": [1]}],
        "batches": [{"effect": "token_limit", "times": 1}],
    }
    emulator = start(turnaround="0s", faults=plan)
    async with sdk(emulator) as client:
        with pytest.raises(openai.InternalServerError):
            await client.batches.list()
        assert (await wait(client, (await submit(client, input_file(5))).id)).status == "failed"
        first = await wait(client, (await submit(client, input_file(5))).id)
        assert first.request_counts.failed == 5
        emulator.kill()
        emulator.start()
        await client.batches.list()
        second = await wait(client, (await submit(client, input_file(5))).id)
        assert (second.status, second.request_counts.failed) == ("completed", 0)


async def half_an_upload(emulator):
    """A connection on which half a file has been sent, and the server has begun to store it."""
    _, writer = await asyncio.open_connection("127.0.0.1", emulator.port)
    writer.write(
        b"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-length: 99999\r\n"
        b"content-type: multipart/form-data; boundary=edge\r\n\r\n"
        b'--edge\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\nhalf of it'
    )
    await writer.drain()
    assert await becomes(lambda: leftovers(emulator))
    return writer


def leftovers(emulator):
    return list((emulator.state / "work").iterdir())


async def becomes(true):
    for _ in range(3000):
        if true():
            return True
        await asyncio.sleep(0.05)
    return False


async def test_an_upload_that_a_kill_cut_off_leaves_nothing(start):
    emulator = start()
    writer = await half_an_upload(emulator)
    emulator.kill()
    writer.close()
    emulator.start()
    assert leftovers(emulator) == []
    assert emulator.status()["files"] == []


async def test_a_client_that_hangs_up_leaves_nothing(start):
    emulator = start()
    writer = await half_an_upload(emulator)
    writer.close()
    assert await becomes(lambda: not leftovers(emulator))
    assert emulator.status()["files"] == []
