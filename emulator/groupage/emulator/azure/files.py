"""Azure's files: usable some time after they were uploaded, without an expiry unless told, and counted."""

from typing import Any

from groupage.emulator.azure.errors import refusal
from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.openai import files as openai
from groupage.emulator.openai.accounts import expiry_of, limit_of, page_of
from groupage.emulator.state import File

EXPIRY_LEAST_S = 14 * 86_400
FILES_MAX, EXPIRING_FILES_MAX = 500, 10_000
"""Batch input files of one resource, without and with an expiry (Microsoft's list of batch limits)."""


def is_processed(call: Call, file: File) -> bool:
    if file.purpose != "batch":
        return True
    return call.core.clock.now() >= file.created_at + call.core.settings.file_processing_s


def shape(call: Call, file: File) -> dict[str, Any]:
    return openai.shape(file) | {"status": "processed" if is_processed(call, file) else "pending"}


async def create(call: Call) -> Reply:
    return json_reply(shape(call, await openai.receive(call, _life)), 201)


def _life(call: Call, fields: dict[str, str], purpose: str) -> float | None:
    seconds = expiry_of(openai.asked_expiry(fields), "expires_after", EXPIRY_LEAST_S)
    if purpose == "batch":
        _check_count(call, expiring=seconds is not None)
    return seconds


def _check_count(call: Call, *, expiring: bool) -> None:
    core, now = call.core, call.core.clock.now()
    live = sum(
        1
        for file in core.state.files.values()
        if file.account == call.account
        and file.purpose == "batch"
        and (file.expires_at is not None) == expiring
        and (file.expires_at is None or now < file.expires_at)
    )
    most = core.settings.max_files or (EXPIRING_FILES_MAX if expiring else FILES_MAX)
    if live >= most:
        kind = "with" if expiring else "without"
        raise refusal(400, f"The quota for files {kind} expiry is reached. The maximum is {most}.", "quotaExceeded")


async def retrieve(call: Call) -> Reply:
    return json_reply(shape(call, openai.found(call)))


async def list_(call: Call) -> Reply:
    """Newest first."""
    request, core = call.request, call.core
    purpose = request.query_params.get("purpose")
    seen = [
        shape(call, file)
        for file in reversed(core.state.files.values())
        if core.find_file(call.account, file.id) and purpose in (None, file.purpose)
    ]
    return json_reply(page_of(seen, request.query_params.get("after"), limit_of(request, 10_000, 10_000)))


async def delete(call: Call) -> Reply:
    return await openai.delete(call)


async def content(call: Call) -> Reply:
    return await openai.content(call)
