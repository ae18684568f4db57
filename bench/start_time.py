"""How long `groupage --help` takes, beside an empty Python: medians of some runs.

    python -m bench.start_time [--runs 11]

That it loads nothing heavy is a test (tests/unit/cli/test_cli_options.py); how long that takes is a machine's matter.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def seconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=11)
    runs = options.parse_args().runs
    groupage = str(Path(sys.executable).with_name("groupage"))
    for name, command in (("groupage --help", [groupage, "--help"]), ("python -c ''", [sys.executable, "-c", ""])):
        times = sorted(seconds(command) for _ in range(runs))
        middle = statistics.median(times)
        print(f"{name:16} {middle:.2f} s, median of {runs} ({times[0]:.2f} to {times[-1]:.2f})")


if __name__ == "__main__":
    main()
