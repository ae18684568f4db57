"""What happens to unanswered requests, by error class. One table, one function."""

from collections.abc import Mapping

from groupage.schemas import ErrorClass, FailureAction, Route
from groupage.schemas.states import UNEXPLAINED

PERMANENT = frozenset({ErrorClass.invalid, ErrorClass.too_large, ErrorClass.forbidden})
"""The same bytes would fail again."""

LATE_CLASSES = frozenset(
    {
        ErrorClass.transient,
        ErrorClass.rate_limit,
        ErrorClass.quota,
        ErrorClass.expired,
        ErrorClass.cancelled,
        ErrorClass.missing,
        ErrorClass.unreadable,
        ErrorClass.unknown,
    }
)
"""What requests of a shard may turn out to be that is harvested after the round was counted."""

SYNC_ROUNDS = 2
"""A second sync round takes up shards whose worker failed; single calls are repeated within a round."""

LIMITS_HALVINGS = 10
"""Rounds after files that were refused whole. Shards are cut down to 1/1024 of the limits; what is refused even
then goes by sync."""


BARREN_MAX = 8
"""So many shards refused as invalid, and not one that got through: the reason holds for all requests."""


def takes_none(at_create: int, done: int, running: int) -> bool:
    """Whether a provider refuses every batch before it is one, so that it is not known to have looked at any request.

    `at_create` of the `done` shards of a round were so refused as invalid, no line named; `running` may yet show that
    others get through.
    """
    return at_create == done and (at_create >= BARREN_MAX or (at_create > 0 and not running))


def fails_all(at_create: int, unexplained: int, done: int, running: int, *, again: bool) -> bool:
    """Whether a person is to be asked why a provider fails batches as a whole and gives no reason that anybody knows.

    `unexplained` of the `done` shards of a round were so failed. Once may be an accident at the provider, so they go
    `again` before; many of them at one time are none.
    """
    barren = at_create + unexplained
    return unexplained > 0 and takes_none(barren, done, running) and (again or barren >= BARREN_MAX)


def is_barren(cut: int, shards: int) -> bool:
    """Whether cutting shards again would be vain: one bad line in a file lets half of it through.

    `cut` of a round's batch `shards` were refused as invalid with no line named.
    """
    return cut == shards and cut >= BARREN_MAX


def action_for(
    error_class: ErrorClass,
    *,
    route: Route,
    rounds_sent: int,
    sync_rounds: int,
    max_rounds: int,
    escalate: bool,
) -> FailureAction:
    """What to do with the requests of one class after a round; `once_more` says of which that holds.

    `route` is where time allows them to go now; `rounds_sent` and `sync_rounds` count the rounds that
    were sent by batch and by sync so far.
    """
    if error_class in PERMANENT:
        return FailureAction.give_up
    if error_class is ErrorClass.account:
        return FailureAction.ask
    if route is Route.batch and rounds_sent < max_rounds:
        return FailureAction.resubmit
    if escalate and sync_rounds < SYNC_ROUNDS:
        return FailureAction.sync
    return FailureAction.give_up


def once_more(insist: frozenset[ErrorClass] = frozenset()) -> frozenset[ErrorClass]:
    """Classes in which a request may end once: it is tried once more, whatever other rounds it was in.

    Of a request that has ended in one of UNEXPLAINED before, those of these classes are given up. `insist` names
    classes that a person decided to send again.
    """
    return UNEXPLAINED - insist


def unexplained_by_rounds(
    actions: Mapping[ErrorClass, FailureAction], rounds: int, insist: frozenset[ErrorClass] = frozenset()
) -> dict[ErrorClass, FailureAction]:
    """The actions where no request is told from another: after two rounds, all that is unexplained is given up.

    Jobs that were there before requests were counted one by one have histories by this rule.
    """
    given_up = once_more(insist) if rounds >= 2 else frozenset()
    return {c: FailureAction.give_up if c in given_up else action for c, action in actions.items()}


def decide_actions(
    unanswered: Mapping[ErrorClass, int],
    *,
    route: Route,
    rounds_sent: int,
    rounds_planned: int,
    sync_rounds: int,
    max_rounds: int,
    escalate: bool,
    insist: frozenset[ErrorClass] = frozenset(),
) -> dict[ErrorClass, FailureAction]:
    """An action for each class with unanswered requests, in the order of the classes.

    `rounds_planned` bounds what was never sent (refused or unstarted shards), because sending it
    is not a repetition. `insist` names classes that a person decided to send again.
    """
    actions: dict[ErrorClass, FailureAction] = {}
    for error_class in ErrorClass:
        if unanswered.get(error_class, 0) <= 0:
            continue
        # A person's "retry" lifts the class rule, not the bound on rounds.
        treated = ErrorClass.transient if error_class in insist else error_class
        actions[error_class] = action_for(
            treated,
            route=route,
            rounds_sent=rounds_planned if error_class is ErrorClass.not_sent else rounds_sent,
            sync_rounds=sync_rounds,
            max_rounds=max_rounds,
            escalate=escalate,
        )
    return actions
