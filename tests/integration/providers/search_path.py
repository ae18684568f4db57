"""Where the modules that the provider tests share lie: imported once, before any of them."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
PROVIDERS = ("anthropic", "azure", "bedrock", "gemini", "openai", "vertex", "vertex_bigquery", "compatible", "contract")
FOLDERS = [
    *(HERE / name for name in PROVIDERS),
    *(HERE.parent / name for name in ("activities", "store", "cli")),
]

sys.path[:0] = [path for path in map(str, [HERE, *FOLDERS]) if path not in sys.path]
