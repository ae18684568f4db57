"""A process that takes in ranges of an input file for another one: `python -m groupage.store.range_process`.

A RangeOrder a line on stdin, a RangeSpooled a line on stdout. It ends with its stdin, and so with the process that
started it, however that ends.
"""

import signal
import sys

from groupage.store.ranges import RangeOrder, spool_range


def main() -> None:
    # Ctrl-C goes to all processes of a terminal, and this one is not the one to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        told = spool_range(RangeOrder.model_validate_json(line))
        sys.stdout.buffer.write(told.model_dump_json().encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
