"""/v1/files: bytes go straight to disk and come straight from it."""

import re
from collections.abc import Callable
from typing import Any

from groupage.emulator.calls import Call, FileSpan, Reply, json_reply
from groupage.emulator.core import FILE_LIFE_S
from groupage.emulator.multipart import BadForm, Form, FormTooLarge, read_form
from groupage.emulator.openai.accounts import bad_request, expiry_of, limit_of, page_of
from groupage.emulator.state import File

PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
LIST_MAX = 10_000


def shape(file: File) -> dict[str, Any]:
    return {
        "object": "file",
        "id": file.id,
        "purpose": file.purpose,
        "filename": file.filename,
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "expires_at": None if file.expires_at is None else int(file.expires_at),
        "status": "processed",
        "status_details": None,
    }


async def create(call: Call) -> Reply:
    return json_reply(shape(await receive(call, _life)))


def _life(call: Call, fields: dict[str, str], purpose: str) -> float | None:
    """Seconds until the file expires. 400 for a wish that cannot be met, or where the account is full."""
    seconds = expiry_of(asked_expiry(fields), "expires_after")
    check_file_count(call)
    return seconds or (FILE_LIFE_S if purpose == "batch" else None)


async def receive(call: Call, life: Callable[[Call, dict[str, str], str], float | None]) -> File:
    """Take an upload in and keep it. `life` gets the form's fields and the purpose."""
    core = call.core
    file_id = core.new_id("file-")
    path = core.state.work_path(f"upload-{file_id}")
    content_type = call.request.headers.get("content-type", "")
    try:
        form = await read_form(call.request.stream(), content_type, path, core.settings.max_file_bytes)
        purpose = _purpose(form)
        expires_s = life(call, form.fields, purpose)
        path.replace(core.state.file_path(file_id))
    except BadForm as error:
        raise bad_request(str(error)) from error
    except FormTooLarge as error:
        message = f"The file is larger than {core.settings.max_file_bytes} bytes."
        raise bad_request(message, "file", "file_too_large", status=413) from error
    finally:
        path.unlink(missing_ok=True)
    with core.state.commit():
        return core.keep_file(
            file_id=file_id,
            account=call.account,
            filename=form.filename or "upload",
            purpose=purpose,
            size=form.size,
            expires_s=expires_s,
            lag_s=call.lag_s,
        )


def _purpose(form: Form) -> str:
    if form.filename is None:
        raise BadForm("Missing required parameter: 'file'.")
    purpose = form.fields.get("purpose", "")
    if purpose not in PURPOSES:
        raise BadForm(f"'{purpose}' is not one of {list(PURPOSES)} - 'purpose'")
    return purpose


def asked_expiry(fields: dict[str, str]) -> dict[str, Any] | None:
    """The `expires_after` of a form, as a JSON body would have it."""
    if "expires_after[seconds]" not in fields:
        return None
    seconds = fields["expires_after[seconds]"]
    return {"anchor": fields.get("expires_after[anchor]"), "seconds": int(seconds) if seconds.isdigit() else None}


def check_file_count(call: Call) -> None:
    limit = call.core.settings.max_files
    if limit is None:
        return
    now = call.core.clock.now()
    live = sum(
        1
        for file in call.core.state.files.values()
        if file.account == call.account and (file.expires_at is None or now < file.expires_at)
    )
    if live >= limit:
        raise bad_request(f"The account holds {live} files; at most {limit} are allowed.", None, "quotaExceeded")


async def retrieve(call: Call) -> Reply:
    return json_reply(shape(found(call)))


async def list_(call: Call) -> Reply:
    request, core = call.request, call.core
    order = request.query_params.get("order", "desc")
    purpose = request.query_params.get("purpose")
    files = [
        shape(file)
        for file in core.state.files.values()
        if core.find_file(call.account, file.id) and purpose in (None, file.purpose)
    ]
    if order != "asc":
        files.reverse()
    return json_reply(page_of(files, request.query_params.get("after"), limit_of(request, LIST_MAX, LIST_MAX)))


async def delete(call: Call) -> Reply:
    file = found(call)
    with call.core.state.commit():
        call.core.state.drop_file(file.id)
    return json_reply({"object": "file", "id": file.id, "deleted": True})


async def content(call: Call) -> Reply:
    """The bytes as they are. A Range header is obeyed."""
    file = found(call)
    path = call.core.state.file_path(file.id)
    span = FileSpan(path, 0, file.bytes)
    headers = {"content-disposition": f'attachment; filename="{file.id}.jsonl"', "accept-ranges": "bytes"}
    status = 200
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", call.request.headers.get("range", ""))
    if asked and file.bytes:
        start = int(asked[1])
        end = min(file.bytes, int(asked[2]) + 1 if asked[2] else file.bytes)
        if start >= file.bytes or end <= start:
            return Reply(416, b"", {"content-range": f"bytes */{file.bytes}"})
        span, status = FileSpan(path, start, end), 206
        headers["content-range"] = f"bytes {start}-{end - 1}/{file.bytes}"
    return Reply(status, span, headers, "application/octet-stream")


def found(call: Call) -> File:
    file_id = call.request.path_params["file_id"]
    file = call.core.find_file(call.account, file_id)
    if file is None:
        raise bad_request(f"No such File object: {file_id}", "id", None, status=404)
    return file
