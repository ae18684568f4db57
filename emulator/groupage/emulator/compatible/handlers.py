"""Files and batches of one flavour: OpenAI's, with what the flavour refuses and how it shows things."""

from typing import Any

from groupage.emulator.calls import ApiError, Call, Reply, json_reply
from groupage.emulator.compatible.flavours import DAY_S, HOUR_S, Flavour
from groupage.emulator.core import FILE_LIFE_S
from groupage.emulator.life import Batch, view
from groupage.emulator.openai import batches as openai_batches
from groupage.emulator.openai import files as openai_files
from groupage.emulator.openai.accounts import bad_request, expiry_of, page_of
from groupage.emulator.state import File
from groupage.emulator.work import error_body

Shown = dict[str, Any]
FORM_BYTES = 10_000
"""What a form may add to its file."""


class Handlers:
    """The calls of one flavour whose answers differ from OpenAI's."""

    def __init__(self, flavour: Flavour) -> None:
        self._flavour = flavour

    # ----- files -----

    async def create_file(self, call: Call) -> Reply:
        header = self._flavour.model_header
        if header and not call.request.headers.get(header):
            raise bad_request(f"Which model is it for? Send the header {header}.", "file")
        most = self._flavour.max_file_bytes
        declared = call.request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > most + FORM_BYTES:
            # Read all the same: a client that is answered while it sends sees a broken connection.
            async for _ in call.request.stream():
                pass
            raise _too_large(most)
        file = await openai_files.receive(call, self._life)
        if file.bytes > most:
            with call.core.state.commit():
                call.core.state.drop_file(file.id)
            raise _too_large(most)
        return json_reply(self._file(file))

    def _life(self, call: Call, fields: dict[str, str], purpose: str) -> float | None:
        asked = openai_files.asked_expiry(fields)
        if asked is not None and not self._flavour.expires_after:
            raise bad_request("Unknown parameter: 'expires_after'.", "expires_after", "unknown_parameter")
        if purpose != "batch":
            raise bad_request(f"Invalid purpose '{purpose}'. Only 'batch' is supported.", "purpose")
        openai_files.check_file_count(call)
        return expiry_of(asked, "expires_after") or FILE_LIFE_S

    def _file(self, file: File) -> Shown:
        shown = openai_files.shape(file) | {"status": self._flavour.file_status}
        if file.purpose == "batch_output" and file.filename.endswith("_error.jsonl"):
            shown["purpose"] = self._flavour.error_purpose
        if not self._flavour.sized:
            shown["bytes"] = 0
        return self._without(shown)

    async def retrieve_file(self, call: Call) -> Reply:
        return json_reply(self._file(openai_files.found(call)))

    async def list_files(self, call: Call) -> Reply:
        core, purpose = call.core, call.request.query_params.get("purpose")
        files = [self._file(one) for one in core.state.files.values() if core.find_file(call.account, one.id)]
        wanted = [shown for shown in files if purpose in (None, shown["purpose"])]
        return self._page(call, wanted, self._flavour.file_list_parameters)

    # ----- batches -----

    async def create_batch(self, call: Call) -> Reply:
        flavour, body = self._flavour, await call.json()
        endpoint, window = body.get("endpoint"), str(body.get("completion_window"))
        if endpoint not in flavour.endpoints:
            raise bad_request(f"Invalid value: '{endpoint}'. Supported: {list(flavour.endpoints)}.", "endpoint")
        seconds = flavour.window_s(window)
        if seconds is None:
            raise bad_request(f"Invalid value: '{window}'.", "completion_window")
        if "output_expires_after" in body:
            raise bad_request("Unknown parameter: 'output_expires_after'.", "output_expires_after")
        self._check_field(body)
        metadata = openai_batches.metadata_of(body.get("metadata"))
        unknown = set(metadata or {}) - flavour.metadata_keys if flavour.metadata_keys is not None else set()
        if unknown:
            raise bad_request(f"Invalid metadata: {sorted(unknown)}.", "metadata")
        source = call.core.find_file(call.account, str(body.get("input_file_id")))
        if source is None or source.purpose != "batch":
            raise bad_request(f"No such File object: {body.get('input_file_id')}", "input_file_id", status=404)
        batch = call.core.new_batch(
            account=call.account,
            endpoint=str(endpoint),
            source=source,
            metadata=metadata if flavour.keeps_metadata else None,
            output_expires_s=None,
            lag_s=call.lag_s,
            window_s=seconds,
        )
        return json_reply(self._batch(batch, batch.created_at))

    def _check_field(self, body: Shown) -> None:
        value: Any = body
        for name in filter(None, self._flavour.create_field.split(".")):
            value = value.get(name) if isinstance(value, dict) else None
            if not value:
                raise bad_request(f"{self._flavour.create_field} is required", name)

    def _batch(self, batch: Batch, now: float) -> Shown:
        seen = view(batch, now)
        shown = openai_batches.shape(batch, seen, now)
        shown |= {"completion_window": _written(batch.window_s), "expires_at": int(batch.created_at + batch.window_s)}
        if self._flavour.all_failed_is_failed and seen.status == "completed" and seen.failed == seen.total:
            shown |= {"status": "failed", "failed_at": shown["completed_at"], "completed_at": None}
        if isinstance(shown["status"], str):
            shown["status"] = self._flavour.word(shown["status"])
        return self._without(shown)

    async def retrieve_batch(self, call: Call) -> Reply:
        return json_reply(self._batch(openai_batches.found(call), call.core.clock.now()))

    async def list_batches(self, call: Call) -> Reply:
        core, now = call.core, call.core.clock.now()
        mine = [one for one in core.state.batches.values() if core.find_batch(call.account, one.id)]
        return self._page(call, [self._batch(one, now) for one in mine], self._flavour.list_parameters)

    async def cancel_batch(self, call: Call) -> Reply:
        batch, now = openai_batches.found(call), call.core.clock.now()
        seen = view(batch, now)
        if seen.ended:
            raise ApiError(400, error_body(f"The batch is {seen.status}.", "invalid_request_error", None))
        call.core.cancel_batch(batch)
        return json_reply(self._batch(call.core.state.batches[batch.id], call.core.clock.now()))

    # ----- both -----

    def _without(self, shown: Shown) -> Shown:
        left_out, nulls = self._flavour.left_out, self._flavour.nulls
        return {name: value for name, value in shown.items() if name not in left_out and (nulls or value is not None)}

    def _page(self, call: Call, items: list[Shown], parameters: frozenset[str]) -> Reply:
        """Newest first by pages, or all in one, oldest first, where there are no pages."""
        query = call.request.query_params
        unknown = [name for name in query if name not in parameters]
        if unknown:
            raise bad_request(f"Unknown parameter: '{unknown[0]}'.", unknown[0], "unknown_parameter")
        if not parameters:
            return json_reply({"object": "list", "data": items})
        limit = query.get("limit", "20")
        most = self._flavour.page_most
        if not limit.isdecimal() or not 1 <= int(limit) <= (10**9 if self._flavour.clamps else most):
            raise bad_request(f"Limit must be between 1 and {most}", "limit")
        if query.get("order", "desc") == "desc":
            items.reverse()
        return json_reply(page_of(items, query.get("after"), min(int(limit), most)))


def _too_large(most: int) -> ApiError:
    return bad_request(f"The file is larger than {most} bytes.", "file", "file_too_large", status=413)


def _written(window_s: float) -> str:
    """A completion_window as it is shown: 1h, 24h, 7d."""
    return f"{int(window_s // HOUR_S)}h" if window_s <= DAY_S else f"{int(window_s // DAY_S)}d"
