"""The emulator's clock: it can run faster than real time, be moved forward, and survives a restart."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """Virtual Unix time in seconds. It starts at real time and never goes back.

    `real` and `virtual` are one point at which both clocks were read; from there the virtual one runs
    `speed` times as fast. While the emulator is down its clock goes on, as a provider's would.
    """

    real: float
    virtual: float
    speed: float = 1.0
    source: Callable[[], float] = field(default=time.time, repr=False)

    def now(self) -> float:
        return self.virtual + (self.source() - self.real) * self.speed

    def advance(self, seconds: float) -> None:
        """Move forward by virtual seconds."""
        if seconds < 0:
            raise ValueError(f"the clock cannot go back by {-seconds} s")
        self.virtual += seconds

    def set_speed(self, speed: float) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.virtual, self.real = self.now(), self.source()
        self.speed = speed

    def real_seconds(self, virtual_seconds: float) -> float:
        """How long so many virtual seconds take."""
        return virtual_seconds / self.speed


def new_clock(speed: float = 1.0, source: Callable[[], float] = time.time) -> Clock:
    now = source()
    return Clock(real=now, virtual=now, speed=speed, source=source)
