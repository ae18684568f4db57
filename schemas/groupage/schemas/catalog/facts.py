"""The shape of a catalog's facts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from groupage.schemas._base import parse_duration
from groupage.schemas.limits import ProviderLimits
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

T = TypeVar("T")
DAY_S = 86_400
SLACK = 1.05
"""A window may end so much after the deadline: the minutes before a batch is created turn no 24h into 1h."""


class Fact(BaseModel, Generic[T]):
    """One thing that is known, and from where.

    `unsure` marks what the sources contradict each other in, or do not say: the value is a careful guess. `note`
    tells what is not in the value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: T
    source: str = Field(min_length=1)
    unsure: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """One choice of `completion_window`: a length, or any whole number of days between two. In the provider's words."""

    shortest: str
    longest: str

    @property
    def shortest_s(self) -> int:
        return int(parse_duration(self.shortest).total_seconds())

    @property
    def longest_s(self) -> int:
        return int(parse_duration(self.longest).total_seconds())


def parse_window(text: str) -> Window:
    """`24h` or `24h..7d`. Raises ValueError."""
    shortest, dots, longest = text.partition("..")
    window = Window(shortest.strip(), longest.strip() if dots else shortest.strip())
    if not 0 < window.shortest_s <= window.longest_s:
        raise ValueError(f"{text!r} is no window: write 24h, or 24h..7d from short to long")
    return window


def choose_window(windows: Sequence[str], left_s: float | None) -> str:
    """The window to ask for, in the provider's own words: the longest one that ends within `left_s`.

    Where none does, the shortest: what is unanswered at the deadline goes by sync anyway. None (no deadline): the
    first, which is the usual one. A long window saves a batch from expiring while there is still time, and may be
    cheaper.
    """
    choices = [parse_window(text) for text in windows]
    if left_s is None:
        return choices[0].shortest
    shortest = min(choices, key=lambda each: each.shortest_s)
    fitting = [_longest_within(each, left_s * SLACK) for each in choices]
    return max([(shortest.shortest_s, shortest.shortest), *fitting])[1]


def _longest_within(window: Window, left_s: float) -> tuple[int, str]:
    """(seconds, its name); (0, "") where none fits."""
    if window.longest_s <= left_s:
        return window.longest_s, window.longest
    if window.shortest_s > left_s:
        return 0, ""
    days = int(left_s // DAY_S)
    if days * DAY_S <= window.shortest_s:
        return window.shortest_s, window.shortest
    return days * DAY_S, f"{days}d"


def _window(text: str) -> str:
    parse_window(text)
    return text


_DURATION_OR_WORD = re.compile(r"\d+(ms|s|m|min|h|d|w)(\d+\w+)*|[a-z].*")


def _kept(value: str) -> str:
    if not _DURATION_OR_WORD.fullmatch(value):
        raise ValueError(f"{value!r}: write a duration (30d, 48h), or say in words how long")
    return value


Count = Annotated[int, Field(gt=0)]
Share = Annotated[Decimal, Field(ge=0, le=1)]
WindowText = Annotated[str, AfterValidator(_window)]
Kept = Annotated[str, AfterValidator(_kept)]


class ProviderFacts(BaseModel):
    """All facts of one provider, for one model where they differ by model. Sizes are bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    dialect: str
    """Which adapter speaks to it."""

    base_url: Fact[str] | None = None
    """Where it is if nothing else is set; None: it has to be set."""
    base_url_env: Fact[str] | None = None
    root_env: Fact[str] | None = None
    """Another variable, for the address under which the API is mounted; the adapter makes a base URL of it."""
    api_key_env: Fact[str] | None = None
    needs_key: Fact[bool]
    """Calls to `base_url` itself are pointless without a key. Any other address may do without."""

    endpoints: Fact[Annotated[list[str], Field(min_length=1)]]
    """Of requests in a batch."""
    max_requests: Fact[Count]
    max_bytes: Fact[Count]
    max_line_bytes: Fact[Count]
    min_requests: Fact[Count]
    max_tokens: Fact[Count] | None = None
    """Prompt tokens of one batch, estimated; None: no known limit."""
    max_inputs: Fact[Count] | None = None
    """Texts (or lists of tokens) in all `/v1/embeddings` requests of one batch, of which one request may hold many;
    None: no known limit."""
    max_batches: Fact[Count] | None = None
    """Batches of one account that may be unfinished at once; not enforced by us: the provider says so."""

    windows: Fact[Annotated[list[WindowText], Field(min_length=1)]]
    """Choices of how long a batch may take: "24h", or "24h..7d" for every whole number of days between. The
    first is the usual one."""
    window_enforced: Fact[bool]
    """False: a batch that takes longer goes on."""
    on_expiry: Fact[Literal["partial", "nothing"]]
    """Whether a batch that expired still gives the answers that it has."""

    batch_discount: Fact[Share]
    """Share off the sync price, where the price list has no batch price. 1: a machine of one's own, nothing is billed
    for its tokens, by sync neither."""
    cache_in_batch: Fact[Literal["stacks", "instead", "none"]]
    """Cached tokens in a batch cost: both discounts; the cache's alone; the batch's alone."""
    price_list: Fact[str] | None = None
    """The seller's id in genai-prices; None: our own name of the provider."""

    input_kept: Fact[Kept]
    results_kept: Fact[Kept]
    """How long input and results stay at the provider: a duration, or words."""

    list_takes_parameters: Fact[bool]
    """False: listings come in one page, newest or oldest first, and take no `limit` or `after`."""
    metadata: Fact[bool]
    """False: batches keep no metadata; they are found by their input file's name instead."""
    expires_after: Fact[bool]
    """False: uploads take no expiry."""
    expiry_bounds: Fact[WindowText]
    """What an expiry may be, from shortest to longest."""
    output_expires_after: Fact[bool]
    """True: result files have no expiry of their own, but take one."""
    file_sizes: Fact[bool]
    """False: listings do not tell a file's true size, so a partial upload cannot be told by it."""
    file_purposes: Fact[list[str]]
    """By what purposes inputs and results are listed."""
    files_page: Fact[Count]
    """Most files that a page of their listing may be asked for."""
    create_extra: Fact[dict[str, Any]] | None = None
    """More fields for the body of the call that creates a batch, as the server wants them."""

    @property
    def expiry_bounds_s(self) -> tuple[int, int]:
        bounds = parse_window(self.expiry_bounds.value)
        return bounds.shortest_s, bounds.longest_s

    def limits(
        self,
        *,
        max_requests: int | None = None,
        max_bytes: int | None = None,
        max_line_bytes: int | None = None,
        max_tokens: int | None = None,
        max_inputs: int | None = None,
        min_requests: int | None = None,
    ) -> ProviderLimits:
        """What one batch may hold. What is given wins: a profile's own settings."""
        bytes_ = max_bytes or self.max_bytes.value
        return ProviderLimits(
            max_requests=max_requests or self.max_requests.value,
            max_bytes=bytes_,
            max_line_bytes=min(max_line_bytes or self.max_line_bytes.value, bytes_),
            max_tokens=max_tokens or (self.max_tokens.value if self.max_tokens else None),
            max_inputs=max_inputs or (self.max_inputs.value if self.max_inputs else None),
            min_requests=min_requests or self.min_requests.value,
            completion_window_s=parse_window(self.windows.value[0]).shortest_s,
        )


PLAIN = frozenset({"title", "dialect"})
"""Keys of a provider's table that are words of ours and need no source."""
