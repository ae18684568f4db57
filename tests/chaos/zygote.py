"""Starts `groupage` processes in milliseconds: it imports everything once and forks for each of them.

    python -m tests.chaos.zygote MODULE...

A command is one JSON line on stdin, {"name", "argv", "env", "out", "err"}; answers are JSON lines on
stdout: {"started": name, "pid": n} and, when that process has ended, {"ended": n, "code": c} (negative:
the signal that killed it). When stdin closes, whatever still runs is killed: nothing outlives the harness.

What runs in the child is the console script's own `main`, in a process and session of its own. The
parent has no threads and has opened nothing, so that a child is as good as one that was started cold.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from typing import Any, NoReturn

PRELOADED = (
    "groupage.cli.run",
    "groupage.cli.serve",
    "groupage.workers.stack",
    "groupage.activities.batch",
    "groupage.activities.data",
    "temporalio.worker",
    "pyarrow.parquet",
    "genai_prices",
)
"""Beside what is named on the command line: the provider's adapter and SDK."""
_PR_SET_PDEATHSIG = 1


def _become(command: dict[str, Any], parent: int) -> NoReturn:
    """The child's part: look like a process that a shell has started, then run the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, command["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, command["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, target)
        os.close(opened)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(command["env"])
    sys.argv = ["groupage", *command["argv"]]
    code = 1
    try:
        from groupage.cli import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the process ends with it, as any would
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _answer(**data: Any) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


def _reap(children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        children.discard(pid)
        _answer(ended=pid, code=os.waitstatus_to_exitcode(status))


def main() -> None:
    for name in (*PRELOADED, *sys.argv[1:]):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    me = os.getpid()
    _answer(ready=me)
    pending = b""
    while True:
        readable, _, _ = select.select([0, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
            _reap(children)
        if 0 in readable:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                command = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _become(command, me)
                children.add(pid)
                _answer(started=command["name"], pid=pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
