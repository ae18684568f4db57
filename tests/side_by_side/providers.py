"""Every provider on this machine: one record each, for all that is tried with all of them side by side.

What a record says of a provider is what differs: its servers, its variables, its words. A new provider is
one more record in `PROVIDERS`.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from groupage.emulator.answers import expected_text, question_of
from groupage.emulator.faults import CALLS
from groupage.emulator.process import EmulatorProcess
from groupage.schemas.ids import decode_tag
from groupage.schemas.portable import target_endpoint, translate
from groupage.store.objects import open_store

from tests.integration.store.s3_server import S3Server, running_s3

BUCKET = "groupage"
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
_FILES = frozenset(name for name in CALLS if name.startswith(("files.", "uploads.")))
_SUFFIX_LENGTH = len("-x01234567")


class Asked(NamedTuple):
    """A request in the provider's own words, by the emulator's names for endpoints."""

    endpoint: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stores:
    """The object stores that providers read from and write to; each run has a prefix of its own in them."""

    s3: S3Server | None = None

    def variables(self) -> dict[str, str]:
        """For the emulator, which reads and writes there as the provider's service would."""
        return self.s3.variables() if self.s3 else {}


@dataclass(frozen=True, slots=True)
class Servers:
    """Where one run's servers are. `root` is the emulator's address, `key` the only one that it takes."""

    root: str
    key: str
    stores: Stores = field(default_factory=Stores)
    prefix: str = "groupage/"
    """Of all objects, where the provider has objects."""

    @property
    def v1(self) -> str:
        return f"{self.root}/v1"


@dataclass(frozen=True, slots=True)
class Provider:
    """`name` is what `--provider` takes.

    sdk         the modules that nothing but this adapter needs
    adapter     our own module, and what of the SDK is imported at the first call
    variables   the environment of whoever talks to it
    asked       a portable request in the provider's own words
    cancel      (method, path) by which a person cancels a batch, from the emulator's id
    store       the object store that its data lies in: "" or "s3"
    emulator    options of the emulator, with underscores
    waits       variables beside: waits that are minutes in production
    uploads     there are input files to be seen at the provider, or objects
    endpoints   of portable requests and, last, of a second group of requests
    calls       of the emulator's, that this adapter makes: what a fault can befall
    """

    name: str
    model: str
    sdk: tuple[str, ...]
    adapter: tuple[str, ...]
    variables: Callable[[Servers], dict[str, str]]
    asked: Callable[[str, dict[str, Any]], Asked]
    cancel: Callable[[str], tuple[str, str]]
    store: str = ""
    emulator: Mapping[str, object] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)
    uploads: bool = True
    endpoints: tuple[str, ...] = (CHAT,)
    calls: frozenset[str] = frozenset(CALLS)

    @property
    def dialect(self) -> str:
        """By this name the emulator knows how the lines look."""
        return self.name

    def text(self, endpoint: str, body: dict[str, Any]) -> str:
        """What a healthy answer says."""
        return expected_text(*self.asked(endpoint, body))

    def question(self, endpoint: str, body: dict[str, Any]) -> str:
        """By what the emulator's ledger counts payments."""
        return question_of(*self.asked(endpoint, body))

    def leftovers(self, servers: Servers, state: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Files and objects of ours that are at the provider now: {id, filename, purpose}."""
        if self.store == "s3":
            return s3_objects(servers)
        return list(state["files"])


def tag_of(batch: Mapping[str, Any]) -> str:
    """The tag that one of the emulator's batches carries, wherever the provider keeps it; "" none."""
    for value in (batch["metadata"] or {}).values():
        # A second job for one tag has a suffix to its name, because a token stands for one job for ever.
        for text in (value, value[:-_SUFFIX_LENGTH]):
            if isinstance(text, str) and decode_tag(text):
                return text
    return ""


def s3_objects(servers: Servers) -> list[dict[str, Any]]:
    assert servers.stores.s3 is not None
    store = open_store(f"s3://{BUCKET}", **servers.stores.s3.options())
    keys = [key for key in store.list(servers.prefix) if not key.endswith("/")]
    return [{"id": f"s3://{BUCKET}/{key}", "filename": key, "purpose": _purpose(key)} for key in keys]


def _purpose(key: str) -> str:
    return "batch" if key.endswith("input.jsonl") else "batch_output"


def _portable(provider: str, model: str, endpoint: str) -> Callable[[str, dict[str, Any]], Asked]:
    def asked(given: str, body: dict[str, Any]) -> Asked:
        return Asked(endpoint, translate(provider, model, given, body))

    return asked


def _on_bedrock(given: str, body: dict[str, Any]) -> Asked:
    model = str(body["model"])
    record = {
        "model": model,
        "target": target_endpoint("bedrock", model, given),
        "modelInput": translate("bedrock", model, given, body),
    }
    return Asked("bedrock", record)


def _bedrock_variables(at: Servers) -> dict[str, str]:
    assert at.stores.s3 is not None
    return at.stores.s3.variables() | {
        "AWS_ENDPOINT_URL_BEDROCK": at.root,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": at.root,
        "GROUPAGE_BEDROCK_BUCKET": BUCKET,
        "GROUPAGE_BEDROCK_PREFIX": at.prefix,
        "GROUPAGE_BEDROCK_ROLE_ARN": "arn:aws:iam::123456789012:role/batch",
        "GROUPAGE_BEDROCK_MIN_REQUESTS": "5",
    }


_CLAUDE = "claude-sonnet-4-5"
_BEDROCK_CLAUDE = "anthropic.claude-haiku-4-5-20251001-v1:0"

PROVIDERS: dict[str, Provider] = {
    one.name: one
    for one in (
        Provider(
            name="openai",
            model="gpt-4o-mini",
            sdk=("openai",),
            adapter=(
                "groupage.activities.providers.openai",
                "openai.resources.batches",
                "openai.resources.chat",
                "openai.resources.files",
            ),
            variables=lambda at: {"OPENAI_BASE_URL": at.v1, "OPENAI_API_KEY": at.key},
            asked=Asked,
            cancel=lambda id_: ("POST", f"/v1/batches/{id_}/cancel"),
            endpoints=(CHAT, RESPONSES),
        ),
        Provider(
            name="azure",
            model="gpt-4o-mini",
            sdk=("openai",),
            adapter=(
                "groupage.activities.providers.azure",
                "openai.resources.batches",
                "openai.resources.chat",
                "openai.resources.files",
            ),
            variables=lambda at: {"AZURE_OPENAI_ENDPOINT": at.root, "AZURE_OPENAI_API_KEY": at.key},
            asked=Asked,
            cancel=lambda id_: ("POST", f"/openai/v1/batches/{id_}/cancel"),
            endpoints=(CHAT, RESPONSES),
        ),
        Provider(
            name="anthropic",
            model=_CLAUDE,
            sdk=("anthropic",),
            adapter=(
                "groupage.activities.providers.anthropic",
                "groupage.schemas.portable.claude",
                "anthropic.resources.messages",
            ),
            variables=lambda at: {"ANTHROPIC_BASE_URL": at.root, "ANTHROPIC_API_KEY": at.key},
            asked=_portable("anthropic", _CLAUDE, "/v1/messages"),
            cancel=lambda id_: ("POST", f"/v1/messages/batches/{id_}/cancel"),
            waits={"GROUPAGE_PROVIDERS__ANTHROPIC__INLINE_CREATE_TIMEOUT_S": "4"},
            uploads=False,
            calls=frozenset(CALLS) - _FILES | {"files.content", "files.delete"},
        ),
        Provider(
            name="bedrock",
            model=_BEDROCK_CLAUDE,
            sdk=("boto3", "botocore"),
            adapter=("groupage.activities.providers.bedrock", "groupage.schemas.portable.claude", "boto3"),
            variables=_bedrock_variables,
            asked=_on_bedrock,
            cancel=lambda id_: ("POST", f"/model-invocation-job/{id_[-12:]}/stop"),
            store="s3",
            emulator={"min_records": 5},
            calls=frozenset(CALLS) - _FILES,
        ),
    )
}


@contextmanager
def running_stores(kinds: set[str], folder: Path, key: str, *, megabytes: int = 1280) -> Iterator[Stores]:
    """The object stores that are asked for, with room for so much; ended with the block."""
    with ExitStack() as stack:
        s3 = None
        if "s3" in kinds:
            (folder / "s3").mkdir(parents=True)
            s3 = stack.enter_context(
                running_s3(folder / "s3", access_key=key, secret_key=f"secret-{key}", volumes=megabytes // 64)
            )
        yield Stores(s3)


@dataclass(frozen=True, slots=True)
class Running:
    """A provider that can be talked to."""

    provider: Provider
    servers: Servers
    emulator: EmulatorProcess

    @property
    def variables(self) -> dict[str, str]:
        return self.provider.variables(self.servers)

    def leftovers(self) -> list[dict[str, Any]]:
        return self.provider.leftovers(self.servers, self.emulator.status())

    def cancel(self, batch_id: str) -> None:
        """As a person would in the provider's console."""
        ask(self.servers, *self.provider.cancel(batch_id))


def ask(servers: Servers, method: str, path: str) -> Any:
    """One call with the key in every header that a provider looks at."""
    request = urllib.request.Request(servers.root + path, method=method, headers=headers(servers.key))
    with urllib.request.urlopen(request, timeout=30) as answer:  # loopback
        return json.loads(answer.read() or b"null")


def headers(key: str) -> dict[str, str]:
    known = ("x-api-key", "api-key", "x-goog-api-key")
    return {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01", **dict.fromkeys(known, key)}


@contextmanager
def running(
    provider: Provider,
    folder: Path,
    *,
    key: str = "test",
    megabytes: int = 1280,
    faults: Mapping[str, Any] | None = None,
    **options: object,
) -> Iterator[Running]:
    """The provider's servers, ended with the block; their state lies in the folder. `options` are the emulator's."""
    with ExitStack() as stack:
        kinds = {provider.store} - {""}
        stores = stack.enter_context(running_stores(kinds, folder / "stores", key, megabytes=megabytes))
        emulator = EmulatorProcess(
            folder / "emulator",
            faults=faults,
            environment=stores.variables(),
            **{"api_key": key, **provider.emulator, **options},
        )
        stack.enter_context(emulator)
        root = emulator.base_url.removesuffix("/v1")
        yield Running(provider, Servers(root, key, stores), emulator)
