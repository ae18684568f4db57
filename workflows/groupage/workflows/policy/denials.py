"""Requests that are refused with a 403: is it about each of them, or may the account do nothing any more?

A file that only this request names, a model that is not open to the account: the words are the same. So answers of
the same time decide: an account that is answered is not refused.
"""

from groupage.schemas.limits import FORBIDDEN_IN_A_ROW


def standing_after(standing: int, forbidden: int, answered: int) -> int:
    """Refusals that no answer has spoken against, after one more shard of which so many were refused and answered.

    A shard speaks for the account's trouble where it was refused more often than answered; one that was answered as
    often, or where nothing was refused, speaks against it.
    """
    if forbidden > answered:
        return standing + forbidden
    return 0 if answered else standing


def is_the_accounts(standing: int, answered: int, *, idle: bool) -> bool:
    """Whether a person is to be asked about `standing` refusals.

    A few of them may yet be spoken against while anything else of the round is under way; once it is `idle`, all
    that the job has `answered` counts.
    """
    return standing >= FORBIDDEN_IN_A_ROW or (idle and standing > answered)
