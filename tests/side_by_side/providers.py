"""Every provider on this machine: one record each, for all that is tried with all of them side by side.

What a record says of a provider is what differs: its servers, its variables, its words. A new provider is
one more record in `PROVIDERS`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

from groupage.emulator.answers import expected_text, question_of
from groupage.emulator.bedrock.jobs import id_of as bedrock_id
from groupage.emulator.faults import CallName
from groupage.emulator.gemini.names import code_of as gemini_code
from groupage.emulator.process import EmulatorProcess
from groupage.emulator.vertex.jobs import number as vertex_number
from groupage.schemas.ids import decode_tag
from groupage.schemas.portable import target_endpoint, translate

from tests.side_by_side.servers import (
    BUCKET,
    DATASET,
    LOCATION,
    PROJECT,
    Servers,
    ask,
    bigquery_tables,
    gcs_objects,
    make_dataset,
    running_stores,
    s3_objects,
)

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
_CALLS: frozenset[str] = frozenset(get_args(CallName))
_FILES = frozenset(name for name in _CALLS if name.startswith(("files.", "uploads.")))
_SUFFIX_LENGTH = len("-x01234567")


class Named(NamedTuple):
    """As much of the emulator's batch as its providers make their own name of."""

    id: str


class Asked(NamedTuple):
    """A request in the provider's own words, by the emulator's names for endpoints."""

    endpoint: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Provider:
    """`label` names the record, `name` is what `--provider` takes.

    sdk         modules that nothing but this adapter needs
    adapter     our own module, and what of the SDK is imported at the first call: loaded once for many processes
    variables   the environment of whoever talks to it
    asked       a portable request in the provider's own words
    cancel      (method, path) by which a person cancels a batch, from the emulator's id
    store       the object store that its data lies in: "", "s3" or "gcs"
    objects     names of what lies in an object store or a dataset; None: the emulator knows its files
    prepare     done once with a new emulator, and after each reset
    emulator    options of the emulator, with underscores
    tagged      batches show our tag from outside; else one that is in doubt and does not end is reported and left to a person
    keyed       there is a key, and the emulator takes no other
    waits       variables beside: waits that are minutes in production
    endpoints   of portable requests and, last, of a second group of requests
    calls       by the emulator's names, that this adapter makes to it or to an object store: what a fault can befall
    """

    label: str
    name: str
    model: str
    sdk: tuple[str, ...]
    adapter: tuple[str, ...]
    variables: Callable[[Servers], dict[str, str]]
    asked: Callable[[str, dict[str, Any]], Asked]
    cancel: Callable[[str], tuple[str, str]]
    store: str = ""
    objects: Callable[[Servers], list[str]] | None = None
    prepare: Callable[[Servers], None] | None = None
    emulator: Mapping[str, object] = field(default_factory=dict)
    tagged: bool = True
    keyed: bool = True
    waits: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[str, ...] = (CHAT,)
    calls: frozenset[str] = _CALLS

    @property
    def dialect(self) -> str:
        """By this name the emulator knows how the lines look."""
        return self.name

    @property
    def uploads(self) -> bool:
        """Whether input can be seen at the provider before there is a batch."""
        return self.objects is not None or "files.create" in self.calls

    def text(self, endpoint: str, body: dict[str, Any]) -> str:
        """What a healthy answer says."""
        return expected_text(*self.asked(endpoint, body))

    def question(self, endpoint: str, body: dict[str, Any]) -> str:
        """By what the emulator's ledger counts payments."""
        return question_of(*self.asked(endpoint, body))

    def leftovers(self, servers: Servers, state: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Files, objects and tables of ours that are there now: {id, filename, purpose}, which is "input" or "results"."""
        if self.objects is None:
            made = {file["id"] for file in state["files"] if file["purpose"] == "batch_output"}
            found = [(file["id"], file["filename"], file["id"] not in made) for file in state["files"]]
        else:
            found = [(name, name, "input" in name) for name in self.objects(servers)]
        return [
            {"id": id_, "filename": name, "purpose": "input" if is_input else "results"}
            for id_, name, is_input in found
        ]


def tag_of(batch: Mapping[str, Any]) -> str:
    """The tag that one of the emulator's batches carries, wherever the provider keeps it; "" none."""
    for value in (batch["metadata"] or {}).values():
        # A second job for one tag may have a suffix to its name, because a token stands for one job for ever.
        for text in (value, value[:-_SUFFIX_LENGTH]):
            if isinstance(text, str) and decode_tag(text):
                return text
    return ""


def _portable(provider: str, model: str, endpoint: str) -> Callable[[str, dict[str, Any]], Asked]:
    def asked(given: str, body: dict[str, Any]) -> Asked:
        return Asked(endpoint, translate(provider, model, given, body))

    return asked


def _record(provider: str, model: str) -> Callable[[str, dict[str, Any]], Asked]:
    """Of the emulator's worker for Google's providers."""

    def asked(given: str, body: dict[str, Any]) -> Asked:
        return Asked(provider, {"model": model, "request": translate(provider, model, given, body)})

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
    return at.stores.variables() | {
        "AWS_ENDPOINT_URL_BEDROCK": at.root,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": at.root,
        "GROUPAGE_BEDROCK_BUCKET": BUCKET,
        "GROUPAGE_BEDROCK_PREFIX": at.prefix,
        "GROUPAGE_BEDROCK_ROLE_ARN": "arn:aws:iam::123456789012:role/batch",
        "GROUPAGE_BEDROCK_MIN_REQUESTS": "5",
    }


def _vertex_variables(at: Servers) -> dict[str, str]:
    return at.stores.variables() | {
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "GOOGLE_CLOUD_LOCATION": LOCATION,
        "GROUPAGE_VERTEX_API_ENDPOINT": at.root,
        "GROUPAGE_VERTEX_DATA": f"gs://{BUCKET}/{at.prefix}",
    }


def _bigquery_variables(at: Servers) -> dict[str, str]:
    data = {"GROUPAGE_VERTEX_DATA": f"bq://{PROJECT}.{DATASET}", "BIGQUERY_EMULATOR_HOST": at.root}
    return _vertex_variables(at) | data


_OPENAI_SDK = ("openai.resources.batches", "openai.resources.chat", "openai.resources.files")
_CLAUDE = "claude-sonnet-4-5"
_BEDROCK_CLAUDE = "anthropic.claude-haiku-4-5-20251001-v1:0"
_GEMINI = "gemini-2.5-flash"
_VERTEX: dict[str, Any] = {
    "name": "vertex",
    "model": _GEMINI,
    "asked": _record("vertex", _GEMINI),
    "cancel": lambda id_: (
        "POST",
        f"/v1/projects/{PROJECT}/locations/{LOCATION}/batchPredictionJobs/{vertex_number(Named(id_))}:cancel",
    ),
    # On loopback it is asked without credentials.
    "keyed": False,
}

_ALL = (
    Provider(
        label="openai",
        name="openai",
        model="gpt-4o-mini",
        sdk=("openai",),
        adapter=("groupage.activities.providers.openai", *_OPENAI_SDK),
        variables=lambda at: {"OPENAI_BASE_URL": at.v1, "OPENAI_API_KEY": at.key},
        asked=Asked,
        cancel=lambda id_: ("POST", f"/v1/batches/{id_}/cancel"),
        endpoints=(CHAT, RESPONSES),
    ),
    Provider(
        label="azure",
        name="azure",
        model="gpt-4o-mini",
        sdk=("openai",),
        adapter=("groupage.activities.providers.azure", *_OPENAI_SDK),
        variables=lambda at: {"AZURE_OPENAI_ENDPOINT": at.root, "AZURE_OPENAI_API_KEY": at.key},
        asked=Asked,
        cancel=lambda id_: ("POST", f"/openai/v1/batches/{id_}/cancel"),
        endpoints=(CHAT, RESPONSES),
    ),
    Provider(
        label="anthropic",
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
        tagged=False,
        waits={"GROUPAGE_PROVIDERS__ANTHROPIC__INLINE_CREATE_TIMEOUT_S": "4"},
        calls=_CALLS - _FILES | {"files.content", "files.delete"},
    ),
    Provider(
        label="bedrock",
        name="bedrock",
        model=_BEDROCK_CLAUDE,
        sdk=("boto3", "botocore"),
        adapter=("groupage.activities.providers.bedrock", "groupage.schemas.portable.claude", "boto3"),
        variables=_bedrock_variables,
        asked=_on_bedrock,
        cancel=lambda id_: ("POST", f"/model-invocation-job/{bedrock_id(Named(id_))}/stop"),
        store="s3",
        objects=s3_objects,
        emulator={"min_records": 5},
        calls=_CALLS - _FILES | {"files.create", "files.content"},
    ),
    Provider(
        label="vertex",
        sdk=("google.cloud.aiplatform_v1", "google.cloud.storage"),
        adapter=(
            "groupage.activities.providers.vertex",
            "groupage.schemas.portable.gemini",
            "google.cloud.aiplatform_v1.services.job_service",
            "google.cloud.storage",
        ),
        variables=_vertex_variables,
        store="gcs",
        objects=gcs_objects,
        calls=_CALLS - _FILES | {"files.create", "files.content", "files.delete"},
        **_VERTEX,
    ),
    Provider(
        label="vertex-bigquery",
        sdk=("google.cloud.aiplatform_v1", "google.cloud.bigquery"),
        adapter=(
            "groupage.activities.providers.vertex",
            "groupage.schemas.portable.gemini",
            "google.cloud.aiplatform_v1.services.job_service",
            "google.cloud.bigquery",
        ),
        variables=_bigquery_variables,
        objects=bigquery_tables,
        prepare=make_dataset,
        **_VERTEX,
    ),
    Provider(
        label="gemini",
        name="gemini",
        model=_GEMINI,
        sdk=("google.genai",),
        adapter=("groupage.activities.providers.gemini", "groupage.schemas.portable.gemini", "google.genai"),
        variables=lambda at: {"GOOGLE_GEMINI_BASE_URL": at.root, "GEMINI_API_KEY": at.key},
        asked=_record("gemini", _GEMINI),
        cancel=lambda id_: ("POST", f"/v1beta/batches/{gemini_code(Named(id_))}:cancel"),
    ),
)
PROVIDERS: dict[str, Provider] = {one.label: one for one in _ALL}


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
    given = ({"api_key": key} if provider.keyed else {}) | dict(provider.emulator) | options
    with running_stores(provider.store, folder / "stores", key, megabytes=megabytes) as stores:
        emulator = EmulatorProcess(folder / "emulator", faults=faults, environment=stores.variables(), **given)
        with emulator:
            servers = Servers(emulator.base_url.removesuffix("/v1"), key, stores)
            if provider.prepare is not None:
                provider.prepare(servers)
            yield Running(provider, servers, emulator)
