"""The command `groupage`. Everything heavy is imported by the command that needs it."""

from groupage.cli.entry import main

__all__ = ["main"]
