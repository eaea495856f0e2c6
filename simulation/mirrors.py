"""Publishers of a mirror, which die anywhere, and what a reader of each version sees.

Like streams they take no turns from the actors. Only worlds of ``MIRRORED`` seeds have them, so
that all other seeds stay as they were.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

import greenlet
import numpy as np

from firnline.commit.base import Base
from firnline.errors import FirnlineError
from firnline.mirror.delta.expiry import expire_vectors, newest_of
from firnline.mirror.delta.head import list_versions
from firnline.mirror.delta.publish import publish
from firnline.mirror.delta.roaring import decode
from firnline.mirror.hold import Hiding
from firnline.mirror.published import Published
from firnline.mirror.retention import LONGEST_WAIT_MS
from firnline.operations.mirror.check import CheckReport, run_check
from firnline.read.hidden import Rows
from firnline.read.plan import plan_hidden
from firnline.table import Table
from simulation.oracle import Oracle
from simulation.rows import decode as decode_part
from simulation.rows import holds
from simulation.stage import Stage, stage_of
from simulation.world import Actor, Interrupted, Violation, World, resume

MIRRORED = range(10_000, 13_000)
"""Seeds of worlds whose table has a mirror, unless its kind cannot have one."""
VECTORED = range(13_000, 14_000)
"""Seeds of worlds whose mirror has deletion vectors."""
IN_CATALOG = range(16_000, 17_000)
"""Seeds of worlds whose mirror is in an Iceberg catalog (``simulation.snapshots``)."""
_FIRST = 2_000_000
"""First number of these actors, which no other actors have."""
_BEGIN, _GO_ON = 0.06, 0.7
"""Probabilities in each step that a publisher begins, or gets its next answer."""
_MOST = 3


@dataclass(frozen=True)
class Version:
    """A version as a reader sees it."""

    files: Mapping[str, Hidden]
    """Hidden rows by key of its parts."""
    written: int
    """Unix ms."""

    @property
    def objects(self) -> set[str]:
        """Keys of the parts, and of the files of vectors."""
        return {*self.files, *(hidden.key for hidden in self.files.values() if hidden.key)}


@dataclass(frozen=True)
class Hidden:
    """The rows of a part that a version hides, by a vector in an object."""

    key: str = ""
    rows: frozenset[int] = frozenset()


@dataclass
class Publishers:
    """The processes that publish a mirror, in any format, and look at what came of them."""

    world: World
    oracle: Oracle
    _running: list[tuple[Actor, greenlet.greenlet]] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    """Unix ms at the beginning of each step."""
    _count: int = 0

    def act(self) -> None:
        """Let a publisher begin or go on, and look at what was written."""
        world = self.world
        self._times.append(world.now)
        if not world.settings.mirrors:
            return
        step, chance = world.step, world.chance
        full = len(self._running) >= _MOST
        if not full and self.oracle.landed and chance.roll(step, 4732) < _BEGIN:
            self._begin()
        if self._running and chance.roll(step, 4733) < _GO_ON:
            chosen = self._running[int(chance.roll(step, 4734) * len(self._running))]
            if not resume(chosen[1]):
                self._running.remove(chosen)
        self._look()

    def leave(self) -> None:
        """End all publishers where they are."""
        for actor, thread in self._running:
            actor.dead = True
            resume(thread)
        self._running.clear()

    def finish(self) -> None:
        """Publish without faults: then the mirror shows the table, or says why not."""
        if not self.world.settings.mirrors or not self.oracle.landed:
            return
        self._begin()
        _, thread = self._running.pop()
        while resume(thread):
            pass
        self._look()

    def _begin(self) -> None:
        self._count += 1
        number, hub = _FIRST + self._count, greenlet.getcurrent()
        r = self.world.chance.stream(number)
        actor = Actor(self.world, f"mirror-{self._count}", number, 0, hub, r)
        play = partial(self._play, self._stage(actor))
        self._running.append((actor, greenlet.greenlet(play)))

    def _stage(self, actor: Actor) -> Stage:
        """Return the environment of a publisher."""
        return stage_of(self.world, self.oracle, actor)

    def _play(self, stage: Stage) -> None:
        stage.actor.tell("begins to publish")
        try:
            self._work(stage)
        except FirnlineError as error:
            self.oracle.stats[f"mirror: {type(error).__name__}"] += 1
            stage.actor.tell(f"ends: {error}")
            if self.world.calm:
                raise Violation(f"the mirror cannot be published: {error}") from error
        except Interrupted:
            stage.actor.tell("ends: it was interrupted")

    def _work(self, stage: Stage) -> None:
        """Publish, or do what else keeps the mirror."""
        raise NotImplementedError

    def _look(self) -> None:
        """Check what readers see now, and what they may use."""
        raise NotImplementedError

    def _published(
        self, stage: Stage, done: Published, check: Callable[[Table], CheckReport]
    ) -> None:
        """Count what came of a publication; without faults the mirror shows the table then."""
        self.oracle.stats["mirrored" if done.written else "mirror as it was"] += 1
        self.oracle.stats["mirror replayed"] += done.replayed
        self.oracle.stats["mirror hides rows"] += done.vectors
        if done.hold is not None:
            self.oracle.stats["mirror waits"] += 1
        elif self.world.calm and not check(stage.table).same:
            raise Violation("the mirror differs from the table after a publication")
        stage.actor.tell(f"is done: {done}")

    def check_rows(self, name: str, seen: Sequence[int], at_ms: int) -> None:
        """Check that a version shows a state that the table had since its writer read it.

        Args:
            name: of the version, for the violation.
            seen: its rows.
            at_ms: unix ms at which its writer read the table, or before.
        """
        if twice := [k for k, count in Counter(seen).items() if count > 1]:
            raise Violation(f"{name} shows rows twice: {sorted(twice)[:5]}")
        # Of several steps in the same millisecond the first.
        last = max(bisect_right(self._times, at_ms) - 1, 0)
        began = bisect_left(self._times, self._times[last])
        if not self.oracle.was_true(set(seen), began):
            raise Violation(f"{name} shows rows {sorted(seen)}, which the table never had since")


@dataclass
class DeltaPublishers(Publishers):
    """The processes that publish a Delta mirror, and the versions that came of them."""

    versions: list[Version] = field(default_factory=list)

    def _work(self, stage: Stage) -> None:
        done = publish(stage.table, look=partial(_look_through, stage))
        if self.world.mix.vectors:
            _expire(stage, done.grace)
        self._published(stage, done, run_check)

    def _look(self) -> None:
        while (key := self.world.paths.delta_version(len(self.versions))) in self.world.objects:
            self._take(key)
        self._check_parts()

    def _take(self, key: str) -> None:
        """Check that a version shows a state that the table had since its writer read it."""
        stored = self.world.objects[key]
        actions = [json.loads(line) for line in stored.data.splitlines()]
        files = dict(self.versions[-1].files) if self.versions else {}
        for action in actions:
            if "remove" in action:
                gone = self._key(action["remove"]["path"])
                if files.pop(gone, None) != self._hidden(action["remove"]):
                    raise Violation(f"{key} removes {gone}, which the mirror did not show so")
            if "add" in action:
                files[self._key(action["add"]["path"])] = self._hidden(action["add"])
        self.versions.append(Version(files, self.world.now))
        self.oracle.stats["Delta version checked"] += 1
        seen = [
            k
            for path, hidden in files.items()
            for row, (k, _, _) in enumerate(self.oracle.part_rows[path])
            if row not in hidden.rows
        ]
        self.check_rows(key, seen, actions[0]["commitInfo"]["firnline"]["at"])

    def _hidden(self, file: Mapping[str, Any]) -> Hidden:
        """Return the rows that an action's vector hides, from its object."""
        told = file.get("deletionVector")
        if told is None:
            return Hidden()
        key = self.world.paths.vectors(self.world.paths.vectors_of_ref(told["pathOrInlineDv"]))
        if key not in self.world.objects:
            raise Violation(f"the mirror names the vectors {key}, which are not there")
        start = told["offset"] + 4
        data = self.world.objects[key].data[start : start + told["sizeInBytes"]]
        return Hidden(key, frozenset(decode(data).tolist()))

    def _key(self, path: str) -> str:
        return f"t/{unquote(path)}"

    def _check_parts(self) -> None:
        """Check that every part of a version that a reader may use exists."""
        world, grace = self.world, self.oracle.times.least_grace
        for number, version in enumerate(self.versions):
            # What waited longer for the next version is deleted all the same.
            until = version.written + LONGEST_WAIT_MS
            if number < len(self.versions) - 1:
                until = min(until, self.versions[number + 1].written + grace)
            if world.now < until and (gone := version.objects - world.objects.keys()):
                raise Violation(f"version {number} of the mirror shows {min(gone)}, which is gone")


def _look_through(
    stage: Stage, base: Base, hiding: Sequence[Hiding]
) -> Iterator[tuple[str, Rows, int | None]]:
    """Find hidden rows in parts of JSON (``mirror.delta.hiding.Look``)."""
    kept = [(each.partition, each.marker) for each in hiding]
    task = plan_hidden(base.snapshot, kept)
    for part in task.parts:
        rows = decode_part(stage.table.store.get(part.key))
        found = [n for n, row in enumerate(rows) if holds(task.hidden[part.hidden], *row) is True]
        yield part.key, np.array(found, np.int64), None


def _expire(stage: Stage, grace: int) -> None:
    """Delete the vectors that no version within the grace names, after every publication."""
    table = stage.table
    listing = list_versions(table.store, table.paths, whole=True)
    oldest = newest_of(listing, table.clock.now_ms() - grace)
    expire_vectors(table.store, table.paths, oldest)
