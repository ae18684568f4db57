"""One request that is refused with a 403 for itself: a file that only it names, a model that it may not use."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_world import Commands, read_results

pytestmark = pytest.mark.timeout(300)

FORBIDDEN = {
    "kind": "http",
    "status": 403,
    "code": "permission_denied",
    "message": "You do not have access to file gs://x/y.png",
    "match": "Say 3 in",
}


@pytest.mark.parametrize(("route", "turnaround"), [("sync", "3h"), ("batch", "1s")])
def test_promise_10_it_fails_alone_and_the_job_goes_on(
    start: Callable[..., Commands], tmp_path: Path, route: str, turnaround: str
):
    groupage = start()
    groupage.emulator.set_faults({"requests": [FORBIDDEN]})
    out = tmp_path / "out.jsonl"
    done = groupage.call(
        "run", groupage.write_input(range(40)), "-o", out, "--poll", "500ms", "--json", "--deadline", "60s",
        "--policy", f"turnaround={turnaround}",
    )  # fmt: skip
    summary = json.loads(done.stdout)
    assert (summary["state"], summary["outcomes"]) == ("completed_with_failures", {"succeeded": 39, "failed": 1})
    results = read_results(out)
    assert Counter(result["route"] for result in results) == {route: 40}
    error = results[3]["error"]
    assert (error["class"], error["code"]) == ("forbidden", "permission_denied")
    assert "You do not have access to file gs://x/y.png" in error["message"]
