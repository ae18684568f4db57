"""The clock and the ways to say how long batches take."""

import pytest
from groupage.emulator.clock import Clock
from groupage.emulator.settings import parse_turnaround


def test_the_clock_runs_at_its_speed_can_be_moved_and_never_goes_back():
    real = [100.0]
    clock = Clock(real=100.0, virtual=1000.0, speed=60.0, source=lambda: real[0])
    real[0] += 2
    assert clock.now() == 1120
    clock.advance(30)
    assert clock.now() == 1150
    clock.set_speed(1)
    real[0] += 10
    assert clock.now() == 1160
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="above 0"):
        clock.set_speed(0)


def test_turnarounds_are_constant_or_drawn_once_per_batch():
    assert parse_turnaround("90s").of(1, 5) == 90
    uniform = parse_turnaround("uniform:10s,2m")
    draws = [uniform.of(1, number) for number in range(200)]
    assert all(10 <= draw <= 120 for draw in draws)
    assert len(set(draws)) == 200
    assert draws == [uniform.of(1, number) for number in range(200)]
    median = sorted(parse_turnaround("lognormal:1h,0.5").of(1, number) for number in range(400))[200]
    assert 3000 < median < 4300


@pytest.mark.parametrize("text", ["soon", "uniform:10s", "lognormal:0s,1", "normal:1s,2", "lognormal:1h,x", ""])
def test_a_turnaround_that_makes_no_sense_is_refused(text):
    with pytest.raises(ValueError, match="turnaround"):
        parse_turnaround(text)
