"""The object store behind one small synchronous interface (obstore releases the GIL meanwhile).

Every put is atomic: a reader sees the old object or the whole new one. `put_new` is the one
conditional operation; it decides races. Retries and timeouts are stated here, not left to the
library: a call that cannot get through fails within RETRY_TIMEOUT plus one request, and the
activity that made it is retried by Temporal.
"""

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import obstore
from groupage.schemas import Message
from groupage.schemas.errors import StoreError, UsageError
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, MemoryStore, from_url
from pydantic import ValidationError

if TYPE_CHECKING:
    from obstore import GetOptions  # only there for type checkers

M = TypeVar("M", bound=Message)

CONNECT_TIMEOUT = timedelta(seconds=5)
REQUEST_TIMEOUT = timedelta(seconds=120)
"""One request, its body included."""
PIECE_BYTES = 8 << 20
"""What one request of a streamed download brings: some seconds even on a slow line."""
RETRY_TIMEOUT = timedelta(seconds=90)
MAX_RETRIES = 6

_FAILURES = (BaseError, OSError, ValueError)
_SCHEMES = ("file", "memory", "s3", "s3a", "gs", "az", "abfs", "abfss")
_SHARED_MEMORY: dict[str, MemoryStore] = {}
_SHARED_LOCK = threading.Lock()


class ObjectMissing(StoreError):
    """There is no object at the key. Raised by `get` and `get_to_file`."""


class Store:
    """Objects by key. `url` never holds a secret. Safe to use from several threads."""

    def __init__(self, url: str, inner: Any) -> None:
        self.url = url
        self._inner = inner

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def get(self, key: str) -> bytes:
        """The whole object. Raises ObjectMissing, StoreError."""
        try:
            return obstore.get(self._inner, key).bytes().to_bytes()
        except FileNotFoundError as error:
            raise ObjectMissing(f"there is no object {key} in {self.url}") from error
        except _FAILURES as error:
            raise self._failed("read", key, error) from error

    def get_or_none(self, key: str) -> bytes | None:
        try:
            return self.get(key)
        except ObjectMissing:
            return None

    def stream(self, key: str) -> Iterator[bytes]:
        """The object in pieces of PIECE_BYTES at most, each one request: however slowly they are used,
        no timeout runs. Raises ObjectMissing, StoreError; the latter if it is replaced meanwhile.
        """
        try:
            found = obstore.head(self._inner, key)
            size, tag = int(found["size"]), found["e_tag"]
            for start in range(0, size, PIECE_BYTES):
                options: GetOptions = {"range": (start, min(size, start + PIECE_BYTES)), "if_match": tag}
                yield obstore.get(self._inner, key, options=options).bytes().to_bytes()
        except FileNotFoundError as error:
            raise ObjectMissing(f"there is no object {key} in {self.url}") from error
        except PreconditionError as error:
            raise StoreError(f"{key} in {self.url} was replaced while it was read") from error
        except _FAILURES as error:
            raise self._failed("read", key, error) from error

    def get_to_file(self, key: str, path: Path) -> int:
        """Stream an object to `path` (whole or not at all); returns its size in bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            size = 0
            with os.fdopen(handle, "wb") as file:
                for chunk in self.stream(key):
                    size += file.write(chunk)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return size

    def put(self, key: str, data: bytes) -> None:
        """Write, whatever is there."""
        try:
            obstore.put(self._inner, key, data)
        except _FAILURES as error:
            raise self._failed("write", key, error) from error

    def put_new(self, key: str, data: bytes) -> bool:
        """Write on condition that there is nothing; False if there is something.

        False may also mean that our own write got through and its answer was lost: where that
        matters, `data` holds something of the writer's own and the caller reads back and compares.
        """
        try:
            obstore.put(self._inner, key, data, mode="create")
        except (AlreadyExistsError, PreconditionError):
            return False
        except _FAILURES as error:
            raise self._failed("write", key, error) from error
        return True

    def put_file(self, key: str, path: Path) -> None:
        """Upload a local file, streaming (multipart above 5 MiB)."""
        try:
            obstore.put(self._inner, key, path)
        except _FAILURES as error:
            raise self._failed("write", key, error) from error

    def exists(self, key: str) -> bool:
        return self.size(key) is not None

    def size(self, key: str) -> int | None:
        """Bytes of the object, or None if there is none."""
        try:
            return int(obstore.head(self._inner, key)["size"])
        except FileNotFoundError:
            return None
        except _FAILURES as error:
            raise self._failed("look at", key, error) from error

    def list(self, prefix: str) -> Iterator[str]:
        """Keys under a prefix (whole path segments), in no promised order."""
        try:
            for chunk in obstore.list(self._inner, prefix, chunk_size=1000):
                for found in chunk:
                    yield found["path"]
        except FileNotFoundError:
            return
        except _FAILURES as error:
            raise self._failed("list", prefix, error) from error

    def delete(self, keys: Iterable[str]) -> None:
        """Delete each key; one that is gone already is no error."""
        for key in keys:
            try:
                obstore.delete(self._inner, key)
            except FileNotFoundError:
                continue
            except _FAILURES as error:
                raise self._failed("delete", key, error) from error

    def put_message(self, key: str, message: Message) -> None:
        self.put(key, message.model_dump_json(by_alias=True).encode())

    def put_new_message(self, key: str, message: Message) -> bool:
        return self.put_new(key, message.model_dump_json(by_alias=True).encode())

    def get_message(self, key: str, kind: type[M]) -> M:
        """Raises ObjectMissing, and StoreError where the object is not such a message."""
        return self._parse(key, kind, self.get(key))

    def get_message_or_none(self, key: str, kind: type[M]) -> M | None:
        data = self.get_or_none(key)
        return None if data is None else self._parse(key, kind, data)

    def _parse(self, key: str, kind: type[M], data: bytes) -> M:
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            raise StoreError(
                f"{key} in {self.url} is damaged: not a {kind.__name__} ({error.error_count()} problems)",
                hint="restore the object from a backup, or run the job under another key",
            ) from error

    def _failed(self, verb: str, key: str, error: Exception) -> StoreError:
        # obstore appends a Rust debug dump after a blank line; the first line says it all.
        reason = (str(error).strip().split("\n", 1)[0] or type(error).__name__)[:400]
        return StoreError(
            f"could not {verb} {f'{key} in ' if key else ''}{self.url}: {reason}",
            hint="check the store's URL, its credentials and that it can be reached",
        )


def open_store(url: str, **options: Any) -> Store:
    """Open file://, s3://, gs://, az:// or memory://; a plain path is taken as file://.

    `options` are obstore's own for the scheme (endpoint, region, access_key_id ...) and win over the
    environment (AWS_*, GOOGLE_*, AZURE_*). An endpoint that starts with http:// may be spoken to
    without TLS. `memory://` is a fresh store, `memory://name` one that this process shares.
    Raises UsageError for a URL that cannot be one, StoreError where it cannot be opened.
    """
    text = url if "://" in url else Path(url).absolute().as_uri()
    scheme = urlsplit(text).scheme.lower()
    if scheme not in _SCHEMES:
        raise UsageError(f"cannot open a store at {url!r}", hint="use file://, s3://, gs://, az:// or memory://")
    if scheme == "memory":
        return Store(text, _memory(text))
    try:
        if scheme == "file":
            return Store(text, LocalStore.from_url(text, mkdir=True))
        return Store(_public(text), _remote(text, options))
    except _FAILURES as error:
        reason = str(error).strip().split("\n", 1)[0][:400]
        raise StoreError(
            f"could not open the store {_public(text)}: {reason}",
            hint="check the setting store (GROUPAGE_STORE), and that it can be reached and written",
        ) from error


def stream_url(url: str, **options: Any) -> Iterator[bytes]:
    """The bytes of one object anywhere (an input file), in pieces. Raises ObjectMissing, StoreError."""
    text = url if "://" in url else Path(url).absolute().as_uri()
    base, _, name = text.rpartition("/")
    # file:///in.jsonl is a file at the top of the file system.
    if not name or (base.endswith("/") and base != "file://"):
        raise UsageError(f"{url!r} does not name an object", hint="write file:///data/in.jsonl or s3://bucket/in.jsonl")
    if urlsplit(text).scheme.lower() == "file":
        # Not by opening the folder as a store: that would create it.
        return _stream_file(text)
    return open_store(base, **options).stream(name)


def _stream_file(url: str) -> Iterator[bytes]:
    from urllib.request import url2pathname

    path = Path(url2pathname(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                yield chunk
    except FileNotFoundError as error:
        raise ObjectMissing(f"there is no file {path}") from error
    except OSError as error:
        raise StoreError(f"could not read {path}: {error.strerror or error}") from error


def _memory(url: str) -> MemoryStore:
    name = url.partition("://")[2].strip("/")
    if not name:
        return MemoryStore()
    with _SHARED_LOCK:
        return _SHARED_MEMORY.setdefault(name, MemoryStore())


def _remote(url: str, options: dict[str, Any]) -> Any:
    config = {name: value for name, value in options.items() if value is not None}
    client: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT,
        "timeout": REQUEST_TIMEOUT,
        **config.pop("client_options", {}),
    }
    if _speaks_http(config):
        client.setdefault("allow_http", True)
    retry = {
        "max_retries": MAX_RETRIES,
        "retry_timeout": RETRY_TIMEOUT,
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
        **config.pop("retry_config", {}),
    }
    opener: Any = from_url  # its overloads tell schemes apart by the type of `config`
    return opener(url, client_options=client, retry_config=retry, **config)


def _speaks_http(config: dict[str, Any]) -> bool:
    names = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "azure_storage_endpoint", "url")
    stated = [str(config[name]) for name in names if name in config]
    if not stated:
        environment = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
        stated = [os.environ[name] for name in environment if os.environ.get(name)]
    return any(text.startswith("http://") for text in stated)


def _public(url: str) -> str:
    """Without user, password and query: some schemes allow tokens there."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
