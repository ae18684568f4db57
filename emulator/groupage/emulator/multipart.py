"""multipart/form-data as a stream: small fields into memory, the file straight to disk.

Written here because a general parser costs seconds on 200 MB: this one looks for the delimiter with
bytes.find, a chunk at a time.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_FIELD_MAX = 64 * 1024
_NAME = re.compile(rb'[ ;]name="([^"]*)"')
_FILENAME = re.compile(rb'filename="((?:[^"\\]|\\.)*)"')


class BadForm(ValueError):
    pass


class FormTooLarge(ValueError):
    """The file part is over the limit."""


@dataclass(slots=True)
class Form:
    """`file` is the part named so: its name and size; the bytes are at the path given to read_form."""

    fields: dict[str, str] = field(default_factory=dict)
    filename: str | None = None
    size: int = 0


def boundary_of(content_type: str) -> bytes:
    match = re.search(r'boundary="?([^";,]+)"?', content_type)
    if not content_type.startswith("multipart/form-data") or match is None:
        raise BadForm("expected multipart/form-data with a boundary")
    return match[1].encode("latin-1")


async def read_form(
    chunks: AsyncIterator[bytes], content_type: str, path: Path, max_bytes: int, file_field: str = "file"
) -> Form:
    """Read a whole form; the part named `file_field` goes to `path`. Raises BadForm or FormTooLarge."""
    form = Form()
    with path.open("wb") as file:
        parser = _Parser(b"\r\n--" + boundary_of(content_type), form, file, max_bytes, file_field)
        async for chunk in chunks:
            parser.feed(chunk)
    if not parser.ended:
        raise BadForm("the form ends before its last boundary")
    return form


class _Parser:
    def __init__(self, delimiter: bytes, form: Form, file: IO[bytes], max_bytes: int, file_field: str) -> None:
        self.delimiter = delimiter
        self.form, self.file, self.max_bytes, self.file_field = form, file, max_bytes, file_field
        # As if the first boundary, too, followed a line end.
        self.rest = b"\r\n"
        self.in_part = False
        self.name = ""
        self.is_file = False
        self.value = bytearray()
        self.ended = False

    def feed(self, chunk: bytes) -> None:
        self.rest = self.rest + chunk if self.rest else chunk
        going_on = True
        while going_on and not self.ended:
            going_on = self._body(self.rest) if self.in_part else self._headers(self.rest)

    def _body(self, data: bytes) -> bool:
        """Take the part's bytes up to the delimiter, or all that cannot be its beginning. False: more is needed."""
        at = data.find(self.delimiter)
        end = at if at >= 0 else max(0, len(data) - len(self.delimiter) + 1)
        if self.is_file:
            self.form.size += end
            if self.form.size > self.max_bytes:
                raise FormTooLarge(f"the file is over {self.max_bytes} bytes")
            self.file.write(memoryview(data)[:end])
        else:
            self.value += data[:end]
            if len(self.value) > _FIELD_MAX:
                raise BadForm(f"field {self.name} is over {_FIELD_MAX} bytes")
        self.rest = data[end:]
        if at < 0:
            return False
        if not self.is_file:
            self.form.fields[self.name] = self.value.decode("utf-8", "replace")
        self.in_part = False
        return True

    def _headers(self, data: bytes) -> bool:
        """Read from a delimiter to the end of the part's headers. False: more is needed."""
        if not data.startswith(self.delimiter[: len(data)]):
            raise BadForm("a boundary was expected")
        after = len(self.delimiter)
        if data[after : after + 2] == b"--":
            self.ended = True
            return False
        end = data.find(b"\r\n\r\n", after)
        if end < 0:
            if len(data) > _FIELD_MAX:
                raise BadForm("the headers of a part are too long")
            return False
        headers = data[after:end]
        name = _NAME.search(headers)
        if name is None:
            raise BadForm("a part has no name")
        self.name = name[1].decode("utf-8", "replace")
        self.is_file = self.name == self.file_field
        self.value = bytearray()
        if self.is_file:
            filename = _FILENAME.search(headers)
            self.form.filename = filename[1].decode("utf-8", "replace") if filename else "upload"
        self.in_part = True
        self.rest = data[end + 4 :]
        return True
