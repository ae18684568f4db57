"""/v1/uploads: a large file in parts. What is not completed lies in `work/` until it is, or is cancelled."""

import shutil
from typing import Any

from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.core import FILE_LIFE_S
from groupage.emulator.multipart import BadForm, FormTooLarge, read_form
from groupage.emulator.openai.accounts import bad_request, expiry_of
from groupage.emulator.openai.files import PURPOSES, check_file_count
from groupage.emulator.openai.files import shape as file_shape

PART_BYTES = 64 * 1024 * 1024
TOTAL_BYTES = 8 * 1024 * 1024 * 1024
UPLOAD_LIFE_S = 3600


async def create(call: Call) -> Reply:
    body = await call.json()
    if body.get("purpose") not in PURPOSES:
        raise bad_request(f"'{body.get('purpose')}' is not one of {list(PURPOSES)} - 'purpose'", "purpose")
    size = body.get("bytes")
    if not isinstance(size, int) or not 0 < size <= TOTAL_BYTES:
        raise bad_request(f"Invalid 'bytes': expected an integer from 1 to {TOTAL_BYTES}.", "bytes")
    now = call.core.clock.now()
    upload = {
        "id": call.core.new_id("upload_"),
        "account": call.account,
        "bytes": size,
        "created_at": int(now),
        "expires_at": int(now) + UPLOAD_LIFE_S,
        "filename": str(body.get("filename") or "upload"),
        "purpose": body["purpose"],
        "status": "pending",
        "expires_s": expiry_of(body.get("expires_after"), "expires_after"),
        "parts": [],
        "file": None,
    }
    _store(call, upload)
    return json_reply(_shape(upload))


async def add_part(call: Call) -> Reply:
    core = call.core
    part_id = core.new_id("part_")
    path = core.state.work_path(part_id)
    kept = False
    try:
        content_type = call.request.headers.get("content-type", "")
        form = await read_form(call.request.stream(), content_type, path, PART_BYTES, "data")
        upload = _pending(call)
        if form.filename is None:
            raise bad_request("Missing required parameter: 'data'.", "data")
        upload["parts"].append(part_id)
        _store(call, upload)
        kept = True
    except (BadForm, FormTooLarge) as error:
        raise bad_request(str(error), "data") from error
    finally:
        if not kept:
            path.unlink(missing_ok=True)
    created = int(core.clock.now())
    return json_reply({"id": part_id, "object": "upload.part", "created_at": created, "upload_id": upload["id"]})


async def complete(call: Call) -> Reply:
    core = call.core
    body = await call.json()
    upload = _pending(call)
    parts = body.get("part_ids")
    if not isinstance(parts, list) or not set(parts) <= set(upload["parts"]):
        raise bad_request("Invalid 'part_ids': expected ids of this upload's parts.", "part_ids")
    check_file_count(call)
    file_id = core.new_id("file-")
    path = core.state.work_path(f"upload-{file_id}")
    with path.open("wb") as whole:
        for part in parts:
            with core.state.work_path(part).open("rb") as one:
                shutil.copyfileobj(one, whole, 1 << 20)
    size = path.stat().st_size
    if size != upload["bytes"]:
        path.unlink()
        raise bad_request(f"The parts hold {size} bytes; the upload was declared with {upload['bytes']}.", "bytes")
    path.replace(core.state.file_path(file_id))
    with core.state.commit():
        file = core.keep_file(
            file_id=file_id,
            account=call.account,
            filename=upload["filename"],
            purpose=upload["purpose"],
            size=size,
            expires_s=upload["expires_s"] or (FILE_LIFE_S if upload["purpose"] == "batch" else None),
        )
        upload |= {"status": "completed", "file": file_shape(file)}
        core.state.put_meta(upload["id"], upload)
    _drop_parts(call, upload)
    return json_reply(_shape(upload))


async def cancel(call: Call) -> Reply:
    upload = _pending(call)
    upload["status"] = "cancelled"
    _store(call, upload)
    _drop_parts(call, upload)
    return json_reply(_shape(upload))


def _store(call: Call, upload: dict[str, Any]) -> None:
    with call.core.state.commit():
        call.core.state.put_meta(upload["id"], upload)


def _pending(call: Call) -> dict[str, Any]:
    upload_id = call.request.path_params["upload_id"]
    upload = call.core.state.meta(upload_id) if upload_id.startswith("upload_") else None
    if upload is None or upload["account"] != call.account:
        raise bad_request(f"No such Upload object: {upload_id}", "id", None, status=404)
    if upload["status"] != "pending" or call.core.clock.now() >= upload["expires_at"]:
        raise bad_request(f"Upload {upload_id} is {upload['status']} or has expired.", "id")
    return dict(upload)


def _drop_parts(call: Call, upload: dict[str, Any]) -> None:
    for part in upload["parts"]:
        call.core.state.work_path(part).unlink(missing_ok=True)


def _shape(upload: dict[str, Any]) -> dict[str, Any]:
    hidden = ("account", "expires_s", "parts")
    return {"object": "upload"} | {key: value for key, value in upload.items() if key not in hidden}
