"""/_emulator: what tests ask and set. No key is needed; the emulator listens on loopback."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import orjson
from groupage.emulator.core import Emulator
from groupage.emulator.faults import BadPlan, read_plan
from groupage.emulator.ledger import question_lines
from groupage.emulator.life import view
from groupage.schemas import parse_duration
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

Answer = Callable[[Request], Awaitable[Response]]


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _explained(handler: Answer) -> Answer:
    """A mistake in the request is a 400 whose text says what is wrong."""

    @wraps(handler)
    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except (BadPlan, ValueError, KeyError) as error:
            return _json({"error": str(error)}, 400)

    return handle


class Admin:
    """The handlers; each is one route."""

    def __init__(self, core: Emulator) -> None:
        self.core = core

    async def state(self, _request: Request) -> Response:
        """Files left, batches with their state, live ones, HTTP calls by name."""
        core, now = self.core, self.core.clock.now()
        batches = []
        for batch in core.state.batches.values():
            seen = view(batch, now)
            batches.append(
                {
                    "id": batch.id,
                    "number": batch.number,
                    "status": seen.status,
                    "ended": seen.ended,
                    "metadata": batch.metadata,
                    "input_file_id": batch.input_file_id,
                    "turnaround_s": batch.turnaround,
                    "effects": [one["effect"] for one in batch.effects],
                    "counts": {"total": seen.total, "completed": seen.completed, "failed": seen.failed},
                }
            )
        files = [
            {"id": file.id, "purpose": file.purpose, "filename": file.filename, "bytes": file.bytes}
            for file in core.state.files.values()
            if file.expires_at is None or now < file.expires_at
        ]
        return _json(
            {
                "now": now,
                "speed": core.clock.speed,
                "files": files,
                "batches": batches,
                "batches_live": sum(not batch["ended"] for batch in batches),
                "calls": dict(core.calls),
                "sync_calls": core.ledger.sync_calls,
            }
        )

    async def ledger(self, _request: Request) -> Response:
        return _json(await run_in_threadpool(self.core.ledger.summary))

    async def questions(self, request: Request) -> Response:
        """JSON lines; `?min_paid=2` and `?question=<16 hex digits>` narrow them down."""
        pages = self.core.ledger.pages()
        ids = {batch_id: self.core.state.ledger_path(f"{batch_id}.ids") for batch_id, _ in pages}
        min_paid = int(request.query_params.get("min_paid", "0"))
        question = request.query_params.get("question")
        lines = question_lines(pages, ids, min_paid=min_paid, question=int(question, 16) if question else None)
        return StreamingResponse(lines, media_type="application/jsonl")

    async def clock(self, _request: Request) -> Response:
        return _json({"now": self.core.clock.now(), "speed": self.core.clock.speed})

    async def advance(self, request: Request) -> Response:
        """{"by": "2h"} moves the clock forward; {"speed": 60} sets its pace."""
        body = orjson.loads(await request.body())
        if "speed" in body:
            self.core.set_speed(float(body["speed"]))
        if "by" in body:
            by = body["by"]
            self.core.advance(parse_duration(by).total_seconds() if isinstance(by, str) else float(by))
        return await self.clock(request)

    async def get_faults(self, _request: Request) -> Response:
        return _json(self.core.strikes.plan.model_dump(mode="json", exclude_unset=True))

    async def put_faults(self, request: Request) -> Response:
        self.core.set_plan(read_plan(orjson.loads(await request.body() or b"{}")))
        return await self.get_faults(request)

    async def reset(self, _request: Request) -> Response:
        await self.core.reset()
        return _json({"reset": True})


def routes(core: Emulator) -> list[BaseRoute]:
    admin = Admin(core)
    named: list[tuple[str, str, Answer]] = [
        ("GET", "/state", admin.state),
        ("GET", "/ledger", admin.ledger),
        ("GET", "/ledger/questions", admin.questions),
        ("GET", "/clock", admin.clock),
        ("POST", "/clock/advance", admin.advance),
        ("GET", "/faults", admin.get_faults),
        ("PUT", "/faults", admin.put_faults),
        ("POST", "/reset", admin.reset),
    ]
    return [Route(f"/_emulator{path}", _explained(handler), methods=[method]) for method, path, handler in named]
