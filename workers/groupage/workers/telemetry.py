"""Logs through structlog to stderr, metrics of the Temporal SDK to Prometheus."""

import functools
import logging
import sys
from typing import Any

import structlog
from groupage.schemas.errors import UsageError
from groupage.schemas.secrets import redacted
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

ERROR_MAX = 500
"""Characters of an error in a one-line log."""


def configure_logging(level: str, log_format: str, *, tracebacks: bool = True) -> None:
    """One shape for our lines and those of libraries. stdout stays free for data.

    Without `tracebacks` an error is one line: for commands whose user wants to know that an attempt
    failed, not where in our code.
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not tracebacks:
        shared.append(_error_in_one_line)
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers, _without_secrets],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "httpx2", "openai"):
        # Their info line for each poll would bury ours.
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def _without_secrets(_logger: Any, _method: str, line: Any) -> str:
    """The last step: a traceback may quote what a library was given, and so may a library's own line."""
    return redacted(str(line))


def _error_in_one_line(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    exc_info = event.pop("exc_info", None)
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        event["error"] = f"{type(error).__name__}: {error}"[:ERROR_MAX]
    return event


@functools.cache
def runtime(metrics: str | None) -> Runtime:
    """The SDK's runtime, one a process: metrics at host:port if given, its own log lines through Python's logging.

    Left alone, the SDK's core writes them to stdout, among the data.
    """
    forward = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    try:
        return Runtime(
            telemetry=TelemetryConfig(
                logging=LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forward),
                metrics=PrometheusConfig(bind_address=metrics, durations_as_seconds=True) if metrics else None,
            )
        )
    except ValueError as error:
        raise UsageError(
            f"metrics cannot be served at {metrics!r}: {error}", hint="write host:port, and use a free port"
        ) from error
