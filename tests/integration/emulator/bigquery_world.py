"""The real BigQuery client on the emulator, and what tests load and read with it."""

import io
import time

import orjson
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

PROJECT, DATASET = "my-project", "batches"
SCHEMA = [
    bigquery.SchemaField("custom_id", "STRING", mode="REQUIRED"),
    bigquery.SchemaField("request", "STRING"),
    bigquery.SchemaField("extra", "JSON"),
    bigquery.SchemaField("number", "INTEGER"),
    bigquery.SchemaField("at", "TIMESTAMP"),
]
TABLE = f"{PROJECT}.{DATASET}.input"


def connect(emulator, *, location="us-central1"):
    """A client, and a dataset to work in."""
    root = emulator.base_url.removesuffix("/v1")
    client = bigquery.Client(PROJECT, AnonymousCredentials(), client_options={"api_endpoint": root})
    dataset = bigquery.Dataset(f"{PROJECT}.{DATASET}")
    dataset.location = location
    client.create_dataset(dataset, exists_ok=True, retry=None)
    return client


def row(number, **more):
    return {"custom_id": f"r-{number}", "request": f'{{"n":{number}}}', "number": number, **more}


def as_file(rows):
    return io.BytesIO(b"".join(orjson.dumps(each) + b"\n" for each in rows))


def load(client, rows, *, table=TABLE, job_id=None, location="us-central1", size=None, schema=SCHEMA, **config):
    """Start a load job: resumable where no size is told."""
    given = bigquery.LoadJobConfig(source_format="NEWLINE_DELIMITED_JSON", schema=schema, **config)
    file = rows if isinstance(rows, io.BytesIO) else as_file(rows)
    return client.load_table_from_file(
        file, table, job_id=job_id, location=location, size=size, num_retries=0, job_config=given, timeout=90
    )


def ended(client, job, patience_s=90):
    """The job when it has ended, well or not."""
    give_up = time.monotonic() + patience_s
    while job.state != "DONE":
        assert time.monotonic() < give_up
        time.sleep(0.02)
        job = client.get_job(job.job_id, location=job.location, retry=None)
    return job


def reason_of(error: GoogleAPICallError):
    return error.errors[0]["reason"]
