"""Which rule of the plan strikes now: counts what the rules have seen and how often they struck."""

from groupage.emulator.faults import SYNC_KINDS, BatchRule, CallRule, FaultPlan, RequestRule, chosen, seed_of
from groupage.emulator.finish import needles, rule_name
from groupage.emulator.state import RuleCount, State


class Strikes:
    """Counters are stored before the fault happens, so a restart does not strike twice."""

    def __init__(self, state: State, plan: FaultPlan) -> None:
        self._state = state
        self.plan = plan

    def _strikes(self, name: str, rule: CallRule | BatchRule, *, free: bool = True) -> bool:
        """Count one occasion for a rule; part of the caller's transaction. Not `free`: another rule struck."""
        count = self._state.rules.get(name) or RuleCount()
        count = RuleCount(count.seen + 1, count.fired)
        hit = free
        if hit and rule.nth is not None:
            hit = count.seen in rule.nth
        if hit and rule.every is not None:
            hit = count.seen % rule.every == 0
        if hit and rule.share is not None:
            hit = rule.share >= 1 or chosen(rule.share, self.plan.seed, name, seed_of(count.seen, name))
        if hit and rule.times is not None:
            hit = count.fired < rule.times
        if hit:
            count = RuleCount(count.seen, count.fired + 1)
        self._state.put_rule(name, count)
        return hit

    def call(self, name: str) -> CallRule | None:
        """The first rule that strikes this HTTP call."""
        rules = [(at, rule) for at, rule in enumerate(self.plan.calls) if rule.call == name]
        if not rules:
            return None
        struck = None
        with self._state.commit():
            for at, rule in rules:
                if self._strikes(rule_name("calls", at, rule.fingerprint), rule, free=struck is None):
                    struck = rule
        return struck

    def effects_for(self, metadata: dict[str, str] | None) -> list[BatchRule]:
        """All effects on a batch that is being created; part of the caller's transaction."""
        values = list((metadata or {}).values())
        return [
            rule
            for at, rule in enumerate(self.plan.batches)
            if (rule.tag is None or any(rule.tag in value for value in values))
            and self._strikes(rule_name("batches", at, rule.fingerprint), rule)
        ]

    def sync_request(self, question: int, text: bytes) -> RequestRule | None:
        """The first rule that strikes this question in a sync call."""
        for at, rule in enumerate(self.plan.requests):
            if "sync" not in rule.routes or rule.lines is not None or rule.kind not in SYNC_KINDS:
                continue
            name = rule_name("requests", at, rule.fingerprint)
            if not self._fits(name, rule, question, text):
                continue
            if rule.times is not None:
                if self._state.times_asked(name, question) >= rule.times:
                    continue
                with self._state.commit():
                    self._state.count_asked([(name, question)])
            return rule
        return None

    def _fits(self, name: str, rule: RequestRule, question: int, text: bytes) -> bool:
        if rule.match is not None and not any(needle in text for needle in needles(rule.match)):
            return False
        if rule.share is not None and rule.share < 1 and not chosen(rule.share, self.plan.seed, name, question):
            return False
        if rule.every is None:
            return True
        count = self._state.rules.get(name) or RuleCount()
        with self._state.commit():
            self._state.put_rule(name, RuleCount(count.seen + 1, count.fired))
        return (count.seen + 1) % rule.every == 0
