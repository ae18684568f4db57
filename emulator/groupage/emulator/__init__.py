"""Provider APIs over loopback HTTP, for the demo, the tests and the benchmarks: docs/emulator.md.

Importing this package is light; the server's libraries are needed where it runs.
"""

from groupage.emulator.answers import expected_embeddings, expected_text, question_of
from groupage.emulator.process import EmulatorFailed, EmulatorProcess

__all__ = ["EmulatorFailed", "EmulatorProcess", "expected_embeddings", "expected_text", "question_of"]
