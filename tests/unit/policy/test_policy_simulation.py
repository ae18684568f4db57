"""The simulation, small: the policy misses no deadline where sync suffices, and keeps more than its rivals."""

from bench.escalation import STRATEGIES, show, simulate


def totals(table, name):
    rows = table[name].values()
    jobs = sum(r.jobs for r in rows)
    return sum(r.missed for r in rows), sum(r.discount for r in rows) / jobs, jobs


def test_no_deadline_is_missed_and_most_of_the_possible_discount_is_kept():
    table = simulate(1500, seed=7)
    ours, best = totals(table, "ours"), totals(table, "clairvoyant")
    assert ours[2] > 1200
    assert ours[0] == 0
    assert totals(table, "batch until half")[0] > 0
    assert ours[1] > totals(table, "batch until half")[1]
    assert ours[1] > totals(table, "sync at once")[1]
    assert ours[1] > 0.8 * best[1]
    assert all(name in show(table) for name in STRATEGIES)


def test_a_seed_gives_the_same_table_twice():
    assert show(simulate(60, seed=3)) == show(simulate(60, seed=3))
