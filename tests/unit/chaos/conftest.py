import sys
from pathlib import Path

# `tests.chaos` is a package of the repository's root.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
