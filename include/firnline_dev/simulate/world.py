"""A world in which the real code runs and everything that can go wrong does, from one seed.

Actors are greenlets; every request to the store is where one of them may be interrupted, paused,
crashed or lied to. Time is a number, objects are a dictionary.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import greenlet

from firnline.ids import format_uuid7
from firnline.paths import TablePaths
from firnline.settings import TableSettings
from firnline_dev.simulate.chance import Chance

TICK = 123_429
"""Milliseconds of one unit of time, so that 24 h, the floor of the sweep, are 700 of them."""
GRACE = 400 * TICK
TTL = 300 * TICK
START_MS = 1_700_000_000_000
ROOT = "memory://simulation/t"
SCHEMA = {"k": "BIGINT", "p": "VARCHAR", "u": "VARCHAR"}
"""Key, partition, user."""


REMOVING = ("delete", "rewrite", "erase", "replace")
"""What a reader of version 1 does not see in full."""
KEY_STEP = 100_000
"""Between the keys of two appended rows."""


class Violation(Exception):  # noqa: N818 - a finding, not a fault of the program
    """A promise that did not hold."""


class Crashed(BaseException):
    """What a crash feels like to the code that it hits."""


@dataclass(frozen=True)
class Mix:
    """What this seed is like (a swarm: every seed has its own mix)."""

    steps: int
    busy: int
    """Actors at once, but for those that stand still."""
    crash: float
    pause: float
    nap: float
    """Chance of a long pause right behind a commit, before it is published."""
    jump: float
    """Chance of a leap of time, at each step."""
    fault: float
    """Chance of an error or a lost answer, at each request."""
    lost_log: float
    """Chance that the whole log is lost, at each step."""
    tier: float
    """``fold.TIER``: which log files are folded is never a matter of correctness."""
    lazy: bool
    deletes: bool
    weights: dict[str, float]

    @classmethod
    def of(cls, r: random.Random, operations: list[str]) -> Mix:
        """Drawn from a seed."""
        deletes = r.random() < 0.6
        weights = {name: r.choice([0.0, 0.5, 1.0, 3.0]) for name in operations}
        if not deletes:
            weights |= {name: 0.0 for name in REMOVING if name in weights}
        weights["append"] = r.choice([1.0, 3.0])
        weights["cleanup"] = r.choice([0.0, 1.0, 3.0])
        found = cls(
            steps=r.choice([100, 200, 300, 500, 900]),
            busy=r.choice([2, 4, 7]),
            crash=r.choice([0.0, 0.01, 0.03]),
            pause=r.choice([0.0, 0.02, 0.1]),
            nap=r.choice([0.0, 0.0, 0.3]),
            tier=r.choice([2.0, 2.0, 0.5, 0.1]),
            jump=r.choice([0.002, 0.006, 0.02, 0.06]),
            fault=r.choice([0.0, 0.0, 0.02, 0.06]),
            lost_log=r.choice([0.0, 0.0, 0.0, 0.002]),
            lazy=r.random() < 0.6,
            deletes=deletes,
            weights=weights,
        )
        return found._sleepy() if r.random() < 0.2 else found

    def _sleepy(self) -> Mix:
        """Little goes wrong but that processes sleep while others clean up behind them."""
        weights = {name: weight / 4 for name, weight in self.weights.items()}
        weights |= {"append": 1.0, "merge": 1.0, "drop": 0.7, "cleanup": 1.5}
        return replace(
            self,
            steps=900,
            busy=2,
            crash=0.0,
            fault=0.0,
            pause=0.01,
            nap=0.2,
            jump=0.02,
            lost_log=0.0,
            weights=weights,
        )


@dataclass
class Stored:
    """One object."""

    data: bytes
    at: int
    """Last modified, by the store's clock."""


IN_FLIGHT = 40 * TICK
"""No network holds a request back for longer."""


@dataclass(frozen=True)
class LatePut:
    """A put whose sender has given up."""

    due: int
    """The step in which it takes effect."""
    sent: int
    key: str
    data: bytes


@dataclass
class World:
    """Everything there is."""

    chance: Chance
    mix: Mix
    settings: TableSettings
    now: int = START_MS
    objects: dict[str, Stored] = field(default_factory=dict)
    version: int = 0
    """Goes up with every change that a reader could notice."""
    step: int = 0
    trace: list[str] = field(default_factory=list)
    on_put: Callable[[str, bytes], str] = lambda _key, _data: ""
    """Told of every new object; says what it means."""
    late: list[LatePut] = field(default_factory=list)
    calm: bool = False
    """Nothing goes wrong any more."""
    _ids: int = 0

    @property
    def paths(self) -> TablePaths:
        """Keys of the one table."""
        return TablePaths("t")

    def put(self, key: str, data: bytes) -> None:
        """Store an object and tell the oracle."""
        self.objects[key] = Stored(data, self.now)
        if key.startswith(self.paths.log_dir):
            self.version += 1
        if meaning := self.on_put(key, data):
            self.tell(f"    = {meaning}")

    def tell(self, what: str) -> None:
        """Note in the trace what happens in this step."""
        self.trace.append(f"{self.step:4} {what}")

    def remove(self, key: str) -> None:
        """Delete an object, if it is there."""
        if self.objects.pop(key, None) is not None:
            self.version += 1

    def next_key(self) -> int:
        """The key of an appended row; between two of them is room for the rows of replaces."""
        return self.next_id() * KEY_STEP

    def next_id(self) -> int:
        """A number that nobody had."""
        self._ids += 1
        return self._ids

    def land_late_puts(self) -> None:
        """Let requests take effect whose sender has long given up."""
        due = [put for put in self.late if put.due <= self.step]
        self.late = [put for put in self.late if put.due > self.step]
        for put in due:
            if put.key not in self.objects and self.now - put.sent <= IN_FLIGHT:
                self.tell(f"a put that was long given up takes effect: {put.key}")
                self.put(put.key, put.data)


@dataclass
class Actor:
    """One process: its own clock skew and its own end."""

    world: World
    name: str
    number: int
    skew: int
    hub: greenlet.greenlet
    r: random.Random
    dead: bool = False
    frozen_until: int = 0
    """Step until which it stands still."""
    _chances: int = 0

    def suffers(self, kind: str, probability: float) -> bool:
        """Whether the next thing that can go wrong for it does."""
        self._chances += 1
        if self.world.calm:
            return False
        return self.world.chance.happens(kind, self.number, self._chances, probability)

    def tell(self, what: str) -> None:
        """Note it in the trace."""
        self.world.tell(f"{self.name} {what}")

    def stand_still(self, steps: int) -> None:
        """Stopped, swapped out, or cut off from the network."""
        self.frozen_until = self.world.step + steps
        self.tell(f"stands still for {steps} steps")

    def request(self, what: str) -> None:
        """Somebody else may run now; a crash may come before the request has an effect."""
        self._refuse_when_dead(what)
        self.hub.switch(what)
        self._refuse_when_dead(what)  # the world may have ended meanwhile
        if self.suffers("crash", self.world.mix.crash):
            self.die(f"before {what}")
        self.tell(what)

    def _refuse_when_dead(self, what: str) -> None:
        if self.dead:
            raise Crashed(what)

    def answered(self, what: str) -> None:
        """A crash may come after the effect, before the answer."""
        if self.suffers("crash", self.world.mix.crash / 2):
            self.die(f"after {what}")

    def die(self, when: str) -> None:
        """End here."""
        self.dead = True
        self.tell(f"CRASHES {when}")
        raise Crashed(when)


@dataclass
class SimClock:
    """The clock of an actor's machine."""

    actor: Actor

    def now_ms(self) -> int:
        """Wall clock, skewed."""
        return self.actor.world.now + self.actor.skew

    def elapsed_ms(self) -> int:
        """Never skewed."""
        return self.actor.world.now - START_MS

    def sleep(self, seconds: float) -> None:
        """Others go on meanwhile; time passes by itself."""
        self.actor.request(f"sleep {seconds}")


@dataclass
class SimIds:
    """Names that nobody had, in any order an actor's clock likes."""

    world: World

    def uuid7(self, now_ms: int) -> str:
        """See ``Ids.uuid7``."""
        return format_uuid7(now_ms, self.world.next_id())
