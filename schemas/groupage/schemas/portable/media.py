"""Images, sounds and files inside messages."""

import binascii
from typing import Any, NamedTuple

from groupage.schemas.portable.errors import Inexpressible

_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_IMAGE_SUFFIXES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}


class Media(NamedTuple):
    """One image, sound or file. Either `data` (base64) or `url` (https) is set."""

    kind: str
    """image, audio or file: the kind of OpenAI's content part."""
    type: str
    """Media type; empty for a URL that does not tell."""
    data: str
    url: str
    name: str
    at: str
    """Path of the part, for messages about it."""


def read_media(part: dict[str, Any], kind: str, at: str) -> Media:
    """The media of one content part of a type other than text. `at` is the part's path."""
    if kind == "image_url":
        _only(part, {"type", "image_url"}, at)
        return _image(part.get("image_url"), _place(part, "image_url", at))
    if kind == "input_audio":
        _only(part, {"type", "input_audio"}, at)
        return _audio(part.get("input_audio"), _place(part, "input_audio", at))
    if kind == "file":
        _only(part, {"type", "file"}, at)
        return _file(part.get("file"), _place(part, "file", at))
    raise Inexpressible(f"{at}.type", f"no known content part: {kind[:40]!r}")


def _place(part: dict[str, Any], name: str, at: str) -> str:
    """The path of a field of the part, or of the part where it has no such field."""
    return f"{at}.{name}" if name in part else at


def _only(value: dict[str, Any], known: set[str], at: str) -> None:
    for name, inner in value.items():
        if name not in known and inner is not None:
            raise Inexpressible(f"{at}.{name}", "has no counterpart")


def _image(value: Any, at: str) -> Media:
    if not isinstance(value, dict) or type(value.get("url")) is not str:
        raise Inexpressible(at, "has no url")
    _only(value, {"url", "detail"}, at)
    if value.get("detail") not in (None, "auto"):
        raise Inexpressible(f"{at}.detail", "the resolution of one image cannot be chosen; leave it at auto")
    url = value["url"]
    if url.startswith("data:"):
        media, data = _data_url(url, f"{at}.url")
        if not media.startswith("image/"):
            raise Inexpressible(f"{at}.url", f"{media[:60]!r} is not an image")
        return Media("image", "image/jpeg" if media == "image/jpg" else media, data, "", "", f"{at}.url")
    if not url.startswith("https://"):
        raise Inexpressible(f"{at}.url", "is neither a data: nor an https: URL")
    suffix = url.partition("?")[0].partition("#")[0].rpartition(".")[2].lower()
    return Media("image", _IMAGE_SUFFIXES.get(suffix, ""), "", url, "", f"{at}.url")


def _audio(value: Any, at: str) -> Media:
    if not isinstance(value, dict) or type(value.get("data")) is not str or value.get("format") not in tuple(_AUDIO):
        raise Inexpressible(at, "has no data, or a format other than wav and mp3")
    _only(value, {"data", "format"}, at)
    return Media("audio", _AUDIO[value["format"]], _base64(value["data"], f"{at}.data"), "", "", f"{at}.data")


def _file(value: Any, at: str) -> Media:
    if not isinstance(value, dict):
        raise Inexpressible(at, "is not an object")
    _only(value, {"file_data", "filename"}, at)
    data, name = value.get("file_data"), value.get("filename")
    if type(data) is not str or not data.startswith("data:"):
        raise Inexpressible(at, "has no file_data with a data: URL")
    if name is not None and type(name) is not str:
        raise Inexpressible(f"{at}.filename", "is not text")
    media, data = _data_url(data, f"{at}.file_data")
    return Media("file", media, data, "", name or "", at)


def _data_url(url: str, at: str) -> tuple[str, str]:
    head, comma, data = url.partition(",")
    media, semicolon, encoding = head[5:].partition(";")
    if not comma or not semicolon or encoding != "base64" or "/" not in media:
        raise Inexpressible(at, "is not of the form data:TYPE;base64,DATA")
    return media.lower(), _base64(data, at)


def _base64(data: str, at: str) -> str:
    try:
        empty = not binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        empty = True
    if empty:
        raise Inexpressible(at, "holds no base64 data")
    return data
