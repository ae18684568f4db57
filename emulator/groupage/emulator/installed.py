"""Whether what the emulator runs on is there: it is an extra of the package, `groupage[emulator]`."""

from importlib.util import find_spec

PACKAGES = ("starlette", "uvicorn", "httptools", "uvloop", "python_multipart")


def missing_package(*more: str) -> str | None:
    """The first of these that is not installed; `more` are looked for as well. None is imported."""
    return next((name for name in (*PACKAGES, *more) if find_spec(name) is None), None)
