"""From argv to an exit code.

0 all succeeded   1 unexpected error   2 bad usage or refused input, nothing was sent
3 completed, but not everything succeeded   4 failed or cancelled   128+n stopped by signal n
"""

import json
import os
import sys
import traceback
from typing import NoReturn

EXIT_UNEXPECTED = 1
EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """The console script. Leaves through `leave`."""
    leave(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; every error has become a message by then."""
    from groupage.cli.app import app

    try:
        app(arguments, prog_name="groupage")
    except SystemExit as end:
        # typer has said what is wrong with the usage, or a command has returned its code (app.finish).
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNEXPECTED
    except Exception as error:  # noqa: BLE001 - the last stop: everything becomes a message and a code
        return report(error, as_json="--json" in arguments)
    return 0


def tell(text: str) -> None:
    """Words for people, or one JSON line for machines: stdout is for data."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def report(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong, where, and what to do, on stderr; with --json as one JSON line there. Returns the code."""
    from groupage.schemas.errors import GroupageError

    known = isinstance(error, GroupageError)
    message = getattr(error, "headline", str(error)) if known else f"unexpected {type(error).__name__}: {error}"
    hint = getattr(error, "hint", "") if known else "this is a bug: please report it with the lines above"
    problems = list(getattr(error, "problems", ()))
    total = getattr(error, "total", len(problems))
    if not known:
        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        said = {"error": type(error).__name__, "message": message, "hint": hint, "problems": problems}
        tell(json.dumps(said, ensure_ascii=False))
    else:
        tell(f"groupage: {message}")
        for problem in problems:
            tell(f"  {problem}")
        if total > len(problems):
            tell(f"  … and {total - len(problems):,} more")
        if hint:
            tell(f"  → {hint}")
    return error.exit_code if isinstance(error, GroupageError) else EXIT_UNEXPECTED


def leave(code: int) -> NoReturn:
    """Exit without the interpreter's own shutdown if the Temporal SDK was loaded.

    Its threads may take the GIL while the interpreter goes down, which aborts the process with
    PyGILState_Release (sdk-python#300): the exit code would be lost. Everything is closed by now.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if "temporalio.bridge.temporal_sdk_bridge" in sys.modules:
        os._exit(code)
    sys.exit(code)
