"""How servers that speak OpenAI's batch API differ, as data: one record a provider, no branches elsewhere.

Numbers are the providers' published limits as of 2026-11 (docs/providers.md); what is unsure there can be
overridden per profile in the worker's settings.
"""

from dataclasses import dataclass

from groupage.schemas.limits import LINE_MAX_BYTES

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Compatibility:
    """One dialect of OpenAI's batch API."""

    base_url: str = ""
    """Where it is if nothing else is set; empty: it has to be set."""
    base_url_env: str = ""
    api_key_env: str = ""
    needs_key: bool = False
    """True: calls to `base_url` itself are pointless without a key. Any other address may do without."""
    completion_window: str = "24h"
    completion_window_s: int = 86_400
    max_requests: int = 50_000
    max_bytes: int = 200 * MB
    max_line_bytes: int = LINE_MAX_BYTES
    list_takes_parameters: bool = True
    """False: listings come in one page, newest or oldest first, and take no `limit` or `after`."""
    metadata: bool = True
    """False: batches keep no metadata; they are found by their input file's name instead."""
    expires_after: bool = True
    """False: uploads take no expiry."""
    file_sizes: bool = True
    """False: listings do not tell a file's true size, so a partial upload cannot be told by it."""


DIALECTS: dict[str, Compatibility] = {
    # Limits: batch guide. Bytes are decimal: a file of 200 MiB would be over the limit of 200 MB.
    "openai": Compatibility(
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        api_key_env="OPENAI_API_KEY",
        needs_key=True,
    ),
    # The v1 surface of Azure OpenAI: 100,000 requests; jobs over 24 h are not expired by the service.
    "azure": Compatibility(
        base_url_env="AZURE_OPENAI_BASE_URL", api_key_env="AZURE_OPENAI_API_KEY", max_requests=100_000
    ),
    # Lists take no parameters; 100 MB by the SDK's own text; windows of 24 h to 7 d.
    "groq": Compatibility(
        base_url="https://api.groq.com/openai/v1",
        base_url_env="GROQ_OPENAI_BASE_URL",
        api_key_env="GROQ_API_KEY",
        needs_key=True,
        max_bytes=100 * MB,
        list_takes_parameters=False,
        expires_after=False,
    ),
    # Model Studio: file size is 100 MB in early pages and 500 MB in later ones, lines 1 to 6 MB by model.
    "alibaba": Compatibility(
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        base_url_env="DASHSCOPE_BASE_URL",
        api_key_env="DASHSCOPE_API_KEY",
        needs_key=True,
        max_bytes=100 * MB,
        max_line_bytes=6 * MB,
        metadata=False,
        expires_after=False,
    ),
    "openai-compatible": Compatibility(
        base_url_env="GROUPAGE_OPENAI_COMPATIBLE_BASE_URL",
        api_key_env="GROUPAGE_OPENAI_COMPATIBLE_API_KEY",
        expires_after=False,
    ),
}
