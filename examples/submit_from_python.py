"""Hand in a job from Python and read its results.

Needs a worker: `groupage dev` in another terminal, or a deployment named by TEMPORAL_ADDRESS.

    python examples/submit_from_python.py examples/questions.jsonl
"""

import asyncio
import sys
from datetime import timedelta

from groupage.client import Groupage
from groupage.schemas import JobPolicy
from groupage.schemas.errors import GroupageError


async def main(path: str) -> int:
    client = await Groupage.connect()
    job = await client.submit(
        path,
        model="gpt-4o-mini",
        tenant="examples",
        deadline=timedelta(hours=6),
        labels={"purpose": "example"},
        policy=JobPolicy(poll=timedelta(seconds=5)),
    )
    # The job is durable from here on: this program may end and attach again later.
    print(f"job {job.tenant}/{job.key}: {(await job.status()).state}")
    async for result in job.results(max_age=timedelta(hours=12)):
        print(f"{result.id}: {result.outcome}: {result.text}")
    summary = await job.result()
    print(f"{summary.state}: {summary.cost_usd} USD, by sync {summary.sync_cost_usd} USD")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1])))
    except GroupageError as error:
        sys.exit(f"{error}\n{error.hint}")
