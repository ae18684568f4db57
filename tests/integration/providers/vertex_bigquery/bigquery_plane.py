"""The BigQuery data plane on the emulator, with the real client, and what tests put into it."""

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from groupage.activities.providers.base import Submission
from groupage.activities.providers.vertex_bigquery import SCHEMA, BigQueryData
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_options import read_options
from groupage.activities.settings import ProviderSettings
from groupage.schemas.ids import wire_id
from provider_world import Emulator

PROJECT, DATASET, LOCATION = "my-project", "batches", "us-central1"
DATA = f"bq://{PROJECT}.{DATASET}"
OWNER = "k3v9q2".replace("9", "7")
TAG = f"g{OWNER}-4f7xk2m2ab3cd-r0-s7"
STEM = TAG.replace("-", "_")
INPUT, OUTPUT = f"{PROJECT}.{DATASET}.{STEM}_input", f"{PROJECT}.{DATASET}.{STEM}_output"


def variables_of(base_url: str) -> dict[str, str]:
    root = base_url.removesuffix("/v1")
    return {
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "GOOGLE_CLOUD_LOCATION": LOCATION,
        "GROUPAGE_VERTEX_DATA": DATA,
        "GROUPAGE_VERTEX_API_ENDPOINT": root,
        "BIGQUERY_EMULATOR_HOST": root,
    }


def request_of(number: int) -> bytes:
    return orjson.dumps({"contents": [{"role": "user", "parts": [{"text": f'question {number} \u2028\x85\\ " 日本'}]}]})


class Plane:
    """One process's plane; `restarted` is another one's on the same tables."""

    def __init__(self, emulator: Emulator, folder: Path, **settings: Any) -> None:
        self.emulator, self.folder = emulator, folder
        self.settings = ProviderSettings(**settings)
        options = read_options(self.settings)
        self.clients = Clients(self.settings, options)
        self.data = BigQueryData(options, self.settings, self.clients)
        self.google = bigquery.Client(
            PROJECT,
            AnonymousCredentials(),
            client_options={"api_endpoint": emulator.base_url.removesuffix("/v1")},
        )

    def close(self) -> None:
        self.clients.close()
        self.google.close()

    def make_dataset(self, location: str = LOCATION) -> None:
        dataset = bigquery.Dataset(f"{PROJECT}.{DATASET}")
        dataset.location = location
        self.google.create_dataset(dataset, retry=None)

    def submission(self, count: int = 10, tag: str = TAG, **more: Any) -> Submission:
        path = self.folder / f"{tag}.jsonl"
        lines = (self.data.line(wire_id(tag, number), request_of(number), claude=False) for number in range(count))
        path.write_bytes(b"".join(lines))
        return Submission(
            tag=tag,
            endpoint="/generateContent",
            model="gemini-2.5-flash",
            path=path,
            requests=count,
            intent_at=datetime.now(UTC),
            **more,
        )

    def rows(self, ref: str = INPUT) -> list[dict[str, Any]]:
        return [dict(row) for row in self.google.list_rows(self.google.get_table(ref, retry=None), retry=None)]

    def tables(self) -> list[str]:
        return [each.table_id for each in self.google.list_tables(f"{PROJECT}.{DATASET}", retry=None)]

    def calls(self, name: str) -> int:
        return int(self.emulator.state()["calls"].get(name, 0))

    async def put_output(self, rows: list[dict[str, Any]], ref: str = OUTPUT) -> None:
        """An output table as Vertex makes one."""
        kinds = {"response": "JSON", "status": "STRING", "processed_time": "TIMESTAMP"}
        schema = [bigquery.SchemaField(name, kind) for name, kind in dict(SCHEMA, **kinds).items()]
        config = bigquery.LoadJobConfig(schema=schema, source_format="NEWLINE_DELIMITED_JSON")
        file = io.BytesIO(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        job = self.google.load_table_from_file(file, ref, location=LOCATION, num_retries=0, job_config=config)
        while job.state != "DONE":
            await asyncio.sleep(0.02)
            job = self.google.get_job(job.job_id, location=LOCATION, retry=None)
        assert job.error_result is None, job.error_result


def job_with(ref: str = OUTPUT) -> dict[str, Any]:
    """An ended job as REST shows it."""
    return {"outputConfig": {"predictionsFormat": "bigquery", "bigqueryDestination": {"outputUri": f"bq://{ref}"}}}
