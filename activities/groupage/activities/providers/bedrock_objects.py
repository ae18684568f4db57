"""Objects in S3 on their way to and from Bedrock, in flat memory. All functions block: run them in threads.

Up: parts of 8 MiB, one after another, so that an upload holds one part. Of an upload whose worker was killed the parts stay,
paid for and in no listing of objects: here it is an object called `s3://bucket/key?uploadId=...`, and deleting that gives it
up. Down: one stream to a file, its length checked against what was promised (docs/cases.md RP-04).
"""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from groupage.activities.threads import check
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

log = logging.getLogger("groupage.bedrock")

PART_BYTES = 8 << 20
CHUNK_BYTES = 1 << 20
SMALL_BYTES = 1 << 20
"""A manifest has a few hundred bytes; a larger object is not one."""


UPLOADS_PAGE = 1000

_UPLOAD = "?uploadId="
_NOT_LISTED = frozenset({403, 405, 501})
"""What a policy without s3:ListBucketMultipartUploads answers, and servers that are like S3."""


@dataclass(frozen=True, slots=True)
class S3Object:
    uri: str
    size: int
    modified_at: datetime | None


def split_uri(uri: str) -> tuple[str, str]:
    """(bucket, key) of `s3://bucket/key`. Raises ValueError."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"{uri!r} is not an s3:// URI")
    return bucket, key


def size_of(s3: Any, uri: str) -> int | None:
    """Bytes, or None where there is no such object."""
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    bucket, key = split_uri(uri)
    try:
        return int(s3.head_object(Bucket=bucket, Key=key)["ContentLength"])
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
            return None
        raise


def put_file(s3: Any, uri: str, path: Path, stop: threading.Event) -> None:
    """Replace the object by the file's bytes. A large file goes in parts and is there whole or not at all."""
    bucket, key = split_uri(uri)
    with path.open("rb") as file:
        first = file.read(PART_BYTES)
        if len(first) < PART_BYTES:
            s3.put_object(Bucket=bucket, Key=key, Body=first)
            return
        where = {"Bucket": bucket, "Key": key}
        where["UploadId"] = s3.create_multipart_upload(**where, ChecksumAlgorithm="CRC32")["UploadId"]
        try:
            parts = []
            for number, part in enumerate(chain([first], iter(lambda: file.read(PART_BYTES), b"")), 1):
                check(stop)
                answer = s3.upload_part(**where, PartNumber=number, Body=part, ChecksumAlgorithm="CRC32")
                told = {name: answer[name] for name in ("ETag", "ChecksumCRC32") if answer.get(name)}
                parts.append({"PartNumber": number, **told})
            s3.complete_multipart_upload(**where, MultipartUpload={"Parts": parts})
        except BaseException:
            _give_up(s3, where)
            raise


def _give_up(s3: Any, where: dict[str, str]) -> None:
    """Parts without an object are paid for and seen nowhere."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        s3.abort_multipart_upload(**where)
    except (BotoCoreError, ClientError) as error:
        log.warning("parts of s3://%s/%s are left behind: %s", where["Bucket"], where["Key"], error)


def get_file(s3: Any, uri: str, path: Path, stop: threading.Event) -> int:
    """Stream the object to a file; returns its size. Raises ProviderError(transient) for a body cut short."""
    bucket, key = split_uri(uri)
    answer = s3.get_object(Bucket=bucket, Key=key)
    body, size = answer["Body"], 0
    try:
        with path.open("wb") as file:
            while chunk := body.read(CHUNK_BYTES):
                check(stop)
                size += file.write(chunk)
    finally:
        body.close()
    promised = answer.get("ContentLength")
    if promised is not None and promised != size:
        raise ProviderError(
            f"download of {uri}: {size} of {promised} bytes came", error_class=ErrorClass.transient, code="cut_short"
        )
    return size


def get_small(s3: Any, uri: str) -> bytes:
    """The first MiB of an object."""
    bucket, key = split_uri(uri)
    body = s3.get_object(Bucket=bucket, Key=key)["Body"]
    try:
        return bytes(body.read(SMALL_BYTES))
    finally:
        body.close()


def list_objects(s3: Any, uri: str) -> Iterator[S3Object]:
    """What lies under a prefix, without the empty objects that stand for folders."""
    bucket, prefix = split_uri(uri)
    more: dict[str, str] = {}
    while True:
        page = s3.list_objects_v2(Bucket=bucket, Prefix=prefix, **more)
        for item in page.get("Contents") or ():
            if not item["Key"].endswith("/"):
                yield S3Object(f"s3://{bucket}/{item['Key']}", item.get("Size", 0), item.get("LastModified"))
        token = page.get("NextContinuationToken")
        if not page.get("IsTruncated") or not token or more.get("ContinuationToken") == token:
            return
        more = {"ContinuationToken": token}


def list_uploads(s3: Any, uri: str) -> Iterator[S3Object]:
    """Uploads under a prefix that were begun and not ended; none where they may not be listed."""
    from botocore.exceptions import ClientError

    bucket, prefix = split_uri(uri)
    more: dict[str, str] = {}
    while True:
        try:
            page = s3.list_multipart_uploads(Bucket=bucket, Prefix=prefix, MaxUploads=UPLOADS_PAGE, **more)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") not in _NOT_LISTED:
                raise
            log.warning("unfinished uploads under %s cannot be seen: %s", uri, error)
            return
        for item in page.get("Uploads") or ():
            yield S3Object(f"s3://{bucket}/{item['Key']}{_UPLOAD}{item['UploadId']}", 0, item.get("Initiated"))
        # Not every server that is like S3 gives both.
        marks = {name: page.get(f"Next{name}") for name in ("KeyMarker", "UploadIdMarker")}
        last = {name: mark for name, mark in marks.items() if mark}
        if not page.get("IsTruncated") or not last or more == last:
            return
        more = last


def give_up_uploads(s3: Any, uri: str) -> None:
    """What earlier attempts began to send to this object, and did not end."""
    for found in list(list_uploads(s3, uri)):
        key, _, upload_id = split_uri(found.uri)[1].rpartition(_UPLOAD)
        _give_up(s3, {"Bucket": split_uri(uri)[0], "Key": key, "UploadId": upload_id})


def delete_object(s3: Any, uri: str) -> None:
    """S3 does not mind if there is none; an upload that has gone is an error of status 404."""
    bucket, key = split_uri(uri)
    of_upload, _, upload_id = key.rpartition(_UPLOAD)
    if of_upload:
        s3.abort_multipart_upload(Bucket=bucket, Key=of_upload, UploadId=upload_id)
    else:
        s3.delete_object(Bucket=bucket, Key=key)
