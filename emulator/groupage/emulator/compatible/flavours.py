"""Servers that speak OpenAI's batch API a little differently, one record each.

They are as strict as their documents: what a document does not name is refused, so that an adapter that counts on
it is seen to. Written from the sources that docs/providers.md names, not from Groupage's catalog.
"""

from dataclasses import dataclass

HOUR_S = 3600.0
DAY_S = 86_400.0
MB = 1_000_000
MIB = 1024 * 1024

_CHAT, _EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"

_OPENAI_ONLY = frozenset({"model", "usage"})
"""Newer fields of OpenAI's batch object that clones do not have."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """How one server differs. What is not said is as at OpenAI."""

    name: str
    endpoints: tuple[str, ...]
    windows: tuple[tuple[float, float], ...] = ((DAY_S, DAY_S),)
    """Allowed lengths of completion_window, from and to in seconds."""
    max_file_bytes: int = 200 * MB
    list_parameters: frozenset[str] = frozenset({"limit", "after"})
    """Query parameters of listings; any other is refused. Empty: one page of everything, oldest first."""
    file_list_parameters: frozenset[str] = frozenset({"limit", "after", "purpose", "order"})
    page_most: int = 100
    clamps: bool = False
    """A `limit` that is too large is lowered, not refused."""
    expires_after: bool = False
    metadata_keys: frozenset[str] | None = None
    """The only keys that metadata may have; None: any."""
    keeps_metadata: bool = True
    left_out: frozenset[str] = _OPENAI_ONLY
    """Fields that its batch objects lack."""
    nulls: bool = True
    """False: fields without a value are left out."""
    words: tuple[tuple[str, str], ...] = ()
    """States that it spells otherwise."""
    error_purpose: str = "batch_output"
    """The purpose of its error files."""
    all_failed_is_failed: bool = False
    """A batch whose every request failed ends as failed."""
    sized: bool = True
    """False: its file objects do not tell a size."""
    file_status: str = "processed"
    model_header: str = ""
    """A header that uploads must have."""
    create_field: str = ""
    """A field that the create call must have, with dots between the levels."""

    def word(self, status: str) -> str:
        return dict(self.words).get(status, status)

    def window_s(self, text: str) -> float | None:
        """Seconds of a completion_window; None for one that is refused."""
        number, unit = text[:-1], text[-1:]
        if not number.isdecimal() or unit not in {"h", "d"}:
            return None
        seconds = int(number) * (HOUR_S if unit == "h" else DAY_S)
        return seconds if any(low <= seconds <= high for low, high in self.windows) else None


FLAVOURS = (
    Flavour(
        "groq",
        (_CHAT,),
        windows=((DAY_S, 7 * DAY_S),),
        max_file_bytes=100 * MB,
        list_parameters=frozenset(),
        file_list_parameters=frozenset(),
    ),
    Flavour(
        "alibaba",
        (_CHAT, _EMBEDDINGS),
        windows=((DAY_S, 14 * DAY_S),),
        max_file_bytes=100 * MB,
        file_list_parameters=frozenset({"limit", "after", "purpose"}),
        metadata_keys=frozenset({"ds_name", "ds_description"}),
    ),
    Flavour(
        "doubleword",
        (_CHAT, _EMBEDDINGS, "/v1/responses", "/v1/completions"),
        windows=((HOUR_S, HOUR_S), (DAY_S, DAY_S)),
        max_file_bytes=100 * MIB,
        clamps=True,
        expires_after=True,
        nulls=False,
        error_purpose="batch_error",
        all_failed_is_failed=True,
    ),
    Flavour(
        "aibrix",
        (_CHAT, _EMBEDDINGS, "/v1/completions"),
        windows=((HOUR_S, 30 * DAY_S),),
        max_file_bytes=100 * MIB,
        file_list_parameters=frozenset({"limit", "after", "purpose"}),
        left_out=frozenset(),
        nulls=False,
        file_status="uploaded",
        create_field="aibrix.model_template.name",
    ),
    Flavour("litellm", (_CHAT, _EMBEDDINGS, "/v1/completions", "/v1/responses"), model_header="x-litellm-model"),
    Flavour(
        # None of its quirks is one server's: all that gateways have been seen to do at once.
        "odd",
        (_CHAT,),
        list_parameters=frozenset(),
        file_list_parameters=frozenset(),
        keeps_metadata=False,
        left_out=frozenset({"model", "usage", "request_counts", "metadata"}),
        nulls=False,
        words=(
            ("validating", "VALIDATING"),
            ("in_progress", "IN_PROGRESS"),
            ("finalizing", "Finalising"),
            ("completed", "COMPLETED"),
            ("failed", "FAILED"),
            ("expired", "EXPIRED"),
            ("cancelling", "CANCELING"),
            ("cancelled", "CANCELED"),
        ),
        sized=False,
    ),
)
