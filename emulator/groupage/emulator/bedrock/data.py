"""The data plane: a job's input from S3, its results to S3. Blocks: run in threads.

Which S3, and with which credentials, is told by AWS's usual variables (AWS_ENDPOINT_URL_S3).
"""

from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.life import Batch
from groupage.schemas.limits import LINE_MAX_BYTES

_CHUNK = 1 << 20


class Unreadable(ValueError):
    """The input is not there, or S3 says no; the text says which."""


class BadInput(ValueError):
    """The input is no list of records: the job fails at validation."""


def _s3() -> Any:
    import boto3  # type: ignore[import-untyped]

    return boto3.client("s3")


def split_uri(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def fetch(uri: str, path: Path, most: int) -> None:
    """Raises Unreadable."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    bucket, key = split_uri(uri)
    try:
        answer = _s3().get_object(Bucket=bucket, Key=key)
        if answer["ContentLength"] > most:
            answer["Body"].close()
            raise Unreadable(f"The input file is {answer['ContentLength']} bytes; it exceeds the maximum of {most}.")
        with path.open("wb") as file:
            while chunk := answer["Body"].read(_CHUNK):
                file.write(chunk)
    except (BotoCoreError, ClientError) as error:
        raise Unreadable(f"Could not read {uri}: {error}") from error


def as_records(source: Path, target: Path, head: dict[str, str], bounds: tuple[int, int]) -> int:
    """Check the form of all records and write them, `head` in front, for the worker; returns how many. Raises BadInput."""
    prefix, (least, most) = orjson.dumps(head)[:-1] + b",", bounds
    seen: set[str] = set()
    number = 0
    with source.open("rb") as lines, target.open("wb") as records:
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_MAX_BYTES:
                raise BadInput(f"Record {number} exceeds the maximum size.")
            try:
                record = orjson.loads(line)
                record_id, body = record["recordId"], record["modelInput"]
            except (ValueError, KeyError, TypeError):
                raise BadInput(f"Validation failed: record {number} is malformed.") from None
            if not isinstance(record_id, str) or record_id in seen or not isinstance(body, dict):
                raise BadInput(
                    f"Validation failed: record {number} has an invalid or duplicate recordId or modelInput."
                )
            seen.add(record_id)
            records.write(prefix + line.strip()[1:] + b"\n")
    if number < least:
        raise BadInput(f"Batch job contains less records ({number}) than the required minimum of: {least}")
    if number > most:
        raise BadInput(f"The number of records ({number}) exceeds the maximum of {most}.")
    return number


def deliver(batch: Batch, results: Path | None, folder: str, name: str) -> None:
    """Put `{name}.out` and the manifest into the job's folder. Doing it again puts the same bytes."""
    assert batch.checked is not None
    assert batch.done is not None
    s3, done = _s3(), batch.done
    bucket, key = split_uri(folder)
    if results is not None:
        s3.upload_file(str(results), bucket, f"{key}{name}.out")
    manifest = {
        "totalRecordCount": batch.checked.total,
        "processedRecordCount": done.completed + done.failed,
        "successRecordCount": done.completed,
        "errorRecordCount": done.failed,
        "inputTokenCount": done.input_tokens,
        "outputTokenCount": done.output_tokens,
    }
    s3.put_object(Bucket=bucket, Key=f"{key}manifest.json.out", Body=orjson.dumps(manifest))
