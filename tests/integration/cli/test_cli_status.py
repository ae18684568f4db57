"""`groupage status` of a job whose steps fail again and again, or that asks while nobody works."""

import json
import time

from cli_world import Commands


def test_a_step_that_keeps_failing_is_shown_with_its_failure(groupage: Commands) -> None:
    dev = groupage.start("dev")
    groupage.emulator.set_faults(
        {"calls": [{"call": "files.create", "action": "error", "status": 503, "message": "gone to tea"}]}
    )
    assert dev.stderr is not None
    assert any("task queues:" in line for line in dev.stderr)
    submitted = groupage.call("submit", groupage.write_input(range(2)), "--key", "k", "--poll", "500ms")
    assert submitted.returncode == 0, submitted.stderr
    give_up_at = time.monotonic() + 150
    while True:
        told = json.loads(groupage.call("status", "k", "--json").stdout)
        if told["health"] == "at_risk":
            break
        assert time.monotonic() < give_up_at, told
    assert told["troubles"][0].startswith("submit_batch of r0-s000, attempt ")
    assert "gone to tea" in told["troubles"][0]
    shown = groupage.call("status", "k").stdout
    assert "trouble" in shown
    assert "attempt" in shown
    dev.terminate()
    groupage.finish(dev)


def test_a_question_is_shown_where_no_worker_runs(groupage: Commands) -> None:
    source = groupage.write_input(range(2))
    run = groupage.start("run", source, "--key", "k", "--max-cost", "0.0000001")
    assert run.stderr is not None
    for line in run.stderr:
        if "waits for your decision" in line:
            break
    run.terminate()
    groupage.finish(run)
    told = json.loads(groupage.call("status", "k", "--json").stdout)
    assert (told["state"], told["health"]) == ("needs_decision", "needs_decision")
    assert "is above the policy's" in told["reason"]
    assert "groupage decide default/k go_on" in told["next_step"]
    aborted = groupage.call("decide", "k", "abort")
    assert aborted.returncode == 0, aborted.stderr
