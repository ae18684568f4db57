"""`groupage ...`, and then the names of all modules that its process has loaded.

python tests/side_by_side/run_and_tell.py MODULES run in.jsonl ...
"""

import sys
from pathlib import Path

from groupage.cli.entry import leave, run

if __name__ == "__main__":
    code = run(sys.argv[2:])
    Path(sys.argv[1]).write_text("\n".join(sorted(sys.modules)))
    leave(code)
