"""The allocator's settings act, in a process that starts them before its threads."""

import os
import subprocess
import sys

import pytest

# Each thread in turn holds and frees 64 MB in pieces of 64 KB, which only pools serve; then it goes on living.
_PROGRAM = """
import re, sys, threading
from groupage.workers.memory import bound_allocator
if sys.argv[1] == "bound":
    bound_allocator()
stop = threading.Event()
def work(done):
    pieces = [b"x" * 65_536 for _ in range(1000)]
    last = b"y" * 65_536
    del pieces
    done.set()
    stop.wait()
for _ in range(8):
    done = threading.Event()
    threading.Thread(target=work, args=(done,), daemon=True).start()
    done.wait()
status = open("/proc/self/status").read()
print(int(re.search(r"VmRSS:\\s+(\\d+)", status)[1]) // 1024, flush=True)
stop.set()
"""


def resident_mib(how: str) -> int:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], env=env, capture_output=True, text=True, check=True, timeout=200
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_threads_that_held_much_leave_little_behind() -> None:
    left_alone, bound = resident_mib("free"), resident_mib("bound")
    assert bound < left_alone / 2, (bound, left_alone)
