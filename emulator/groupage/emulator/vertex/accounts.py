"""Who calls: an account is a project in a location. Tokens are not checked unless there is only one that is allowed."""

import hashlib

from groupage.emulator.core import Emulator
from groupage.emulator.gemini.errors import refusal
from starlette.requests import Request


def authenticate(request: Request, core: Emulator) -> str:
    """The account's code. 401 for another token than the only one that is allowed."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if core.settings.api_key is not None and token != core.settings.api_key:
        raise refusal(401)
    path = request.path_params
    return f"vertex/{number_of(path['project'])}/{path['location']}"


def number_of(project: str) -> str:
    """Names of resources have the project's number in place of its id; both are taken in a path."""
    if project.isdecimal():
        return project
    return str(int.from_bytes(hashlib.blake2b(project.encode(), digest_size=5).digest(), "big"))
