"""A simulated world, from one seed, in which the real code meets every kind of fault.

Actors are greenlets; at every request to the store one of them may be interrupted, paused,
crashed or given a false answer. Time is a number, objects are a dictionary.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import greenlet

from firnline.ids import format_uuid7
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from simulation.chance import Chance
from simulation.mix import Mix

TICK = 123_429
"""Milliseconds of one unit of time: 24 h, the minimum age for the sweep, are 700 units."""
GRACE = 400 * TICK
TTL = 300 * TICK
AHEAD = 80 * TICK
"""Milliseconds by which the clock of maintenance may be ahead."""
START_MS = 1_700_000_000_000
ROOT = "memory://simulation/t"
ROOT_FOR_ENGINES = "s3://simulation/t"
"""The same place, as other engines spell it."""
SCHEMA = {"k": "BIGINT", "p": "VARCHAR", "u": "VARCHAR"}
"""Key, partition, user."""


KEY_STEP = 100_000
"""Distance between the keys of two appended rows."""


MOST_REQUESTS = 100_000
"""Requests and sleeps of one actor above which it is taken for one that waits for ever."""


class Violation(Exception):  # noqa: N818 - a finding, not a fault of the program
    """A guarantee of the format was violated."""


class Crashed(BaseException):
    """Raised in the code of an actor that crashes."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, a signal or no memory: the actor's code ends, and may send requests while it does."""


HALF = 0.5
_INTERRUPTS = 0.3
"""Share of crashes that are interrupts."""


@dataclass
class Stored:
    """One object."""

    data: bytes
    at: int
    """Last modified, by the store's clock."""


IN_FLIGHT = 40 * TICK
"""Maximum milliseconds for which the network delays a request."""


@dataclass(frozen=True)
class LatePut:
    """A put whose sender has given up."""

    due: int
    """Step in which it takes effect."""
    sent: int
    key: str
    data: bytes


@dataclass(frozen=True)
class LateCall:
    """A request to another service whose sender has given up."""

    due: int
    """Step in which it takes effect."""
    sent: int
    what: str
    act: Callable[[], None]


@dataclass
class World:
    """The objects, the time and the actors of one seed."""

    chance: Chance
    mix: Mix
    settings: TableSettings
    now: int = START_MS
    objects: dict[str, Stored] = field(default_factory=dict)
    version: int = 0
    """Incremented by every change that is visible to readers."""
    step: int = 0
    trace: list[str] = field(default_factory=list)
    on_put: Callable[[str, bytes], str] = lambda _key, _data: ""
    """Called for every new object; returns its meaning."""
    on_delete: Callable[[str, int], None] = lambda _key, _began: None
    """Called with each object that an actor deletes, and the step in which that actor began."""
    late: list[LatePut] = field(default_factory=list)
    calls: list[LateCall] = field(default_factory=list)
    asleep: set[str] = field(default_factory=set)
    """Processes that sleep right before a put, or died there."""
    removed: set[str] = field(default_factory=set)
    """Keys of objects that were deleted; some may come back."""
    lake: Any = None
    """The catalog of its Iceberg mirror (``simulation.catalog.Lake``), if it has one."""
    calm: bool = False
    """True if no more faults are injected."""
    uploaded: dict[str, str] = field(default_factory=dict)
    """Part -> actor that has stored it."""
    listed: dict[str, int] = field(default_factory=dict)
    """Actor -> step in which it last began to list the log."""
    looked: dict[bytes, int] = field(default_factory=dict)
    """Transaction's file -> that step of its sender, when the file was first sent."""
    _ids: int = 0

    @property
    def paths(self) -> TablePaths:
        """Keys of the one table."""
        return TablePaths("t")

    def put(self, key: str, data: bytes) -> None:
        """Store an object and report it to the oracle."""
        self.objects[key] = Stored(data, self.now)
        if key.startswith((self.paths.log_dir, self.paths.txn_dir)):
            self.version += 1
        if meaning := self.on_put(key, data):
            self.tell(f"    = {meaning}")

    def tell(self, what: str) -> None:
        """Write an event of this step to the trace."""
        self.trace.append(f"{self.step:4} {what}")

    def remove(self, key: str) -> None:
        """Delete an object, if it is there."""
        if self.objects.pop(key, None) is not None:
            self.version += 1
            self.removed.add(key)

    def next_key(self) -> int:
        """Return the key of an appended row; the gaps leave room for the rows of replaces."""
        return self.next_id() * KEY_STEP

    def next_id(self) -> int:
        """Return a new unique number."""
        self._ids += 1
        return self._ids

    def land_late_puts(self) -> None:
        """Apply requests whose sender gave up long ago."""
        due = [put for put in self.late if put.due <= self.step]
        self.late = [put for put in self.late if put.due > self.step]
        for put in due:
            if put.key not in self.objects and self.now - put.sent <= IN_FLIGHT:
                self.tell(f"a put that was long given up takes effect: {put.key}")
                self.put(put.key, put.data)
        calls = [call for call in self.calls if call.due <= self.step]
        self.calls = [call for call in self.calls if call.due > self.step]
        for call in calls:
            if self.now - call.sent <= IN_FLIGHT:
                self.tell(f"{call.what} that was long given up takes effect")
                call.act()


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
    """Step until which it is paused."""
    stood_ms: int = 0
    """Milliseconds for which its clock stood still, as that of a paused virtual machine."""
    _slept_at: int | None = None
    _chances: int = 0
    _requests: int = 0

    def suffers(self, kind: str, probability: float) -> bool:
        """Return True if its next possible fault happens."""
        self._chances += 1
        if self.world.calm:
            return False
        return self.world.chance.happens(kind, self.number, self._chances, probability)

    def tell(self, what: str) -> None:
        """Write an event of this actor to the trace."""
        self.world.tell(f"{self.name} {what}")

    def stand_still(self, steps: int) -> None:
        """Pause it: stopped, swapped out, or cut off from the network."""
        self.frozen_until = self.world.step + steps
        self.tell(f"stands still for {steps} steps")

    def sleep(self, what: str) -> None:
        """Stop it right before a request, for days, with its clock or without."""
        self.stand_still(self.r.randint(50, 500))
        self.tell(f"sleeps before {what}")
        self.world.asleep.add(self.name)
        # An appender's clock goes on: its acknowledgement is by that (docs/guarantees.md, C2).
        if not self.name.startswith("append") and self.r.random() < HALF:
            self._slept_at = self.world.now

    def request(self, what: str) -> None:
        """Let other actors run; may crash before the request has an effect."""
        self._refuse_when_dead(what)
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            raise Violation(f"{self.name} does not end: request {self._requests:,} is {what}")
        self.hub.switch(what)
        self.world.asleep.discard(self.name)
        if self._slept_at is not None:
            self.stood_ms += self.world.now - self._slept_at
            self._slept_at = None
        self._refuse_when_dead(what)  # the world may have ended meanwhile
        if self.suffers("crash", self.world.mix.crash):
            self._end(f"before {what}")
        self.tell(what)

    def _refuse_when_dead(self, what: str) -> None:
        if self.dead:
            raise Crashed(what)

    def answered(self, what: str) -> None:
        """Maybe crash after the effect, before the answer."""
        if self.suffers("crash", self.world.mix.crash / 2):
            self._end(f"after {what}")

    def _end(self, when: str) -> None:
        """End the actor by a crash or an interrupt."""
        if self.world.chance.roll(self.number, self._chances, 17) < _INTERRUPTS:
            self.tell(f"IS INTERRUPTED {when}")
            raise Interrupted(when)
        self.dead = True
        self.tell(f"CRASHES {when}")
        raise Crashed(when)


def resume(thread: greenlet.greenlet) -> bool:
    """Run an actor to its next request; return False if it has ended."""
    try:
        thread.switch()
    except (Crashed, Interrupted):
        return False
    return not thread.dead


@dataclass
class SimClock:
    """The clock of an actor's machine."""

    actor: Actor

    def now_ms(self) -> int:
        """Return the skewed wall clock."""
        return self.actor.world.now + self.actor.skew

    def elapsed_ms(self) -> int:
        """Return the monotonic clock, which is never skewed, but may have stood still."""
        return self.actor.world.now - START_MS - self.actor.stood_ms

    def sleep(self, seconds: float) -> None:
        """Let other actors run. Their steps take time; where nobody else is, sleeping does."""
        world, before = self.actor.world, self.actor.world.now
        self.actor.request(f"sleep {seconds}")
        if world.now == before:
            world.now += max(1, round(1000 * seconds))


@dataclass
class SimIds:
    """Unique names, ordered by the actor's clock."""

    world: World

    def uuid7(self, now_ms: int) -> str:
        """See ``Ids.uuid7``."""
        return format_uuid7(now_ms, self.world.next_id())

    def secret(self) -> str:
        """See ``Ids.secret``."""
        return "00" * 32
