"""/v1beta/files: resumable uploads, look, list, delete, and download of what batches made.

An upload is a start, which gives a URL, and pieces that are sent to it; the last one finalizes. What is not
finalized lies in `work/` and survives a kill, as everything here does.
"""

import re
from typing import Any

from groupage.emulator.calls import Call, FileSpan, Reply, json_reply
from groupage.emulator.gemini.accounts import page_of
from groupage.emulator.gemini.errors import refusal
from groupage.emulator.gemini.names import find, result_id
from groupage.emulator.gemini.questions import camel
from groupage.emulator.shown import zulu
from groupage.emulator.state import File

FILE_LIFE_S = 48 * 3600.0
"""Files API: kept for 48 hours, by Google's documentation."""
MAX_FILE_BYTES = 2_000_000_000
MAX_PROJECT_BYTES = 20_000_000_000
PAGE_DEFAULT, PAGE_MAX = 10, 100
ID_MAX = 40
MADE = "batch_output"
"""Purpose of files that batches made: the only ones that can be downloaded. Of others it is their MIME type."""
_NAME = re.compile(r"files/[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


async def start(call: Call) -> Reply:
    """X-Goog-Upload-Command: start."""
    asked = camel((await call.json()).get("file") or {})
    headers = call.request.headers
    size = headers.get("x-goog-upload-header-content-length", "")
    if headers.get("x-goog-upload-protocol") != "resumable" or not size.isdigit():
        raise refusal(400, "Only resumable uploads of a known size are taken here.")
    if int(size) > MAX_FILE_BYTES:
        raise refusal(400, f"File size exceeds the maximum of {MAX_FILE_BYTES} bytes.")
    name = asked.get("name") or f"files/{call.core.new_id('')[:12]}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refusal(400, f"* CreateFileRequest.file.name: {name} is no file's name")
    _check_room(call, int(size))
    upload_id = call.core.new_id("upload_")
    upload = {
        "account": call.account,
        "name": name,
        "display_name": str(asked.get("displayName") or ""),
        "mime_type": str(asked.get("mimeType") or headers.get("x-goog-upload-header-content-type") or ""),
        "size": int(size),
    }
    with call.core.state.commit():
        call.core.state.put_meta(upload_id, upload)
    url = str(call.request.url.replace_query_params(upload_id=upload_id, upload_protocol="resumable"))
    return json_reply({}, 200, {"x-goog-upload-url": url, "x-goog-upload-status": "active"})


async def piece(call: Call) -> Reply:
    """X-Goog-Upload-Command: upload, or upload, finalize. Bytes that were cut off are forgotten."""
    core, headers = call.core, call.request.headers
    upload_id = call.request.query_params["upload_id"]
    upload = core.state.meta(upload_id)
    path = core.state.work_path(f"part_{upload_id}")
    offset, there = headers.get("x-goog-upload-offset", ""), path.stat().st_size if path.exists() else 0
    if offset != str(there):
        raise refusal(400, f"Invalid upload offset {offset}: {there} bytes are there.")
    finalize = "finalize" in headers.get("x-goog-upload-command", "")
    try:
        with path.open("ab") as file:
            async for chunk in call.request.stream():
                file.write(chunk)
    except BaseException:
        with path.open("r+b") as file:
            file.truncate(there)
        raise
    if not finalize:
        return json_reply({}, 200, {"x-goog-upload-status": "active"})
    size = path.stat().st_size
    if size != upload["size"]:
        path.unlink()
        raise refusal(400, f"{size} bytes came; the upload was declared with {upload['size']}.")
    file_id = upload["name"].removeprefix("files/")
    if file_id in core.state.files:
        raise refusal(409, f"File {upload['name']} already exists.", "ALREADY_EXISTS")
    path.replace(core.state.file_path(file_id))
    with core.state.commit():
        made = core.keep_file(
            file_id=file_id,
            account=call.account,
            filename=upload["display_name"],
            purpose=upload["mime_type"],
            size=size,
            expires_s=FILE_LIFE_S,
            lag_s=call.lag_s,
        )
    return json_reply({"file": shape(call, made)}, 200, {"x-goog-upload-status": "final"})


def _check_room(call: Call, size: int) -> None:
    core, limit = call.core, call.core.settings.max_files
    live = [file for file in core.state.files.values() if core.find_file(call.account, file.id)]
    if limit is not None and len(live) >= limit:
        raise refusal(429, f"Quota exceeded for file storage: at most {limit} files in progress.")
    if sum(file.bytes for file in live) + size > MAX_PROJECT_BYTES:
        raise refusal(429, f"Quota exceeded for file_storage_bytes in progress: limit {MAX_PROJECT_BYTES}.")


def shape(call: Call, file: File) -> dict[str, Any]:
    generated = file.purpose == MADE
    name = f"files/{_id_of(call, file)}"
    uri = f"{call.request.url.scheme}://{call.request.url.netloc}/v1beta/{name}"
    shown = {
        "name": name,
        "displayName": file.filename,
        "mimeType": "application/jsonl" if generated else file.purpose,
        "sizeBytes": str(file.bytes),
        "createTime": zulu(file.created_at),
        "updateTime": zulu(file.created_at),
        "uri": uri,
        "state": "ACTIVE",
        "source": "GENERATED" if generated else "UPLOADED",
    }
    if file.expires_at is not None:
        shown["expirationTime"] = zulu(file.expires_at)
    return shown | ({"downloadUri": f"{uri}:download?alt=media"} if generated else {})


async def retrieve(call: Call) -> Reply:
    return json_reply(shape(call, _found(call)))


async def list_(call: Call) -> Reply:
    """Newest first."""
    core = call.core
    files = [file for file in core.state.files.values() if core.find_file(call.account, file.id)][::-1]
    begin, end, more = page_of(call.request, len(files), PAGE_DEFAULT, PAGE_MAX)
    return json_reply({"files": [shape(call, file) for file in files[begin:end]]} | more)


async def delete(call: Call) -> Reply:
    if len(call.request.path_params["file"]) > ID_MAX:
        what = f"File ID (name excluding 'files/') cannot be more than {ID_MAX} characters."
        raise refusal(400, f"* DeleteFileRequest.name: {what}")
    file = _found(call)
    with call.core.state.commit():
        call.core.state.drop_file(file.id)
    return json_reply({})


async def content(call: Call) -> Reply:
    """?alt=media. Uploaded files cannot be downloaded."""
    file = _found(call)
    if file.purpose != MADE:
        raise refusal(400, "File not downloadable: only generated files can be downloaded.", "FAILED_PRECONDITION")
    return Reply(200, FileSpan(call.core.state.file_path(file.id), 0, file.bytes), {}, "application/jsonl")


def _found(call: Call) -> File:
    """403 where it is missing: the Files API does not tell the two apart."""
    file_id = call.request.path_params["file"]
    batch = find(call, file_id.removeprefix("batch-")) if file_id.startswith("batch-") else None
    output = batch.done.output_file_id if batch is not None and batch.done is not None else None
    file = call.core.find_file(call.account, output or file_id)
    if file is None:
        raise refusal(403, f"You do not have permission to access the File {file_id} or it may not exist.")
    return file


def _id_of(call: Call, file: File) -> str:
    """Results are named by their batch; a file of results whose batch was deleted is gone with it."""
    batch = call.core.state.batches.get(file.filename.removesuffix("_output.jsonl")) if file.purpose == MADE else None
    return result_id(batch) if batch is not None else file.id
