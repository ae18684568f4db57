"""What a translation raises."""

from groupage.schemas.errors import UsageError


class Inexpressible(UsageError):
    """A field of the request that the provider has no words for. Nothing is dropped in silence.

    `field` is the field's path in the request's body: `seed`, `messages[2].content[1].image_url.detail`.
    """

    def __init__(self, field: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {reason}", hint=hint)
        self.field = field
        self.reason = reason
