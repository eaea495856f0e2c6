"""The store of one actor, with pages, interruptions between requests, faults and lost answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from firnline.store.base import Counters, Deleted, ObjectMeta
from simulation.world import IN_FLIGHT, Actor, LatePut

_AGAIN = 0.4
"""Probability that the request after a failed one fails too."""
PAGE = 5
"""Objects of one page of a listing; other actors run between two pages."""
_FAULTS = {
    "unsent": "gets a 503; nothing was stored",
    "lost": "gets no answer; it was stored",
    "repeated": "is told 412: its own first try had stored it, or a rival",
    "late": "gets no answer; it is still under way",
    "conflict": "is told 409: two puts at once, and neither may be stored",
}
BATCH = 3
"""Keys of one batch delete."""


@dataclass
class SimStore:
    """A ``firnline.store.base.Store`` on the world's objects."""

    actor: Actor
    counters: Counters = field(default_factory=Counters)
    where: str = "simulation"
    """Identity of the store, shared by all actors: one of them probes it."""
    _failed: bool = False

    def _fails(self, more: float = 1.0) -> bool:
        fault = self.actor.world.mix.fault
        # A fault often persists a moment later, when the answer is to be read back.
        again = _AGAIN if fault and self._failed else 0.0
        self._failed = self.actor.suffers("fault", max(fault * more, again))
        return self._failed

    def _unavailable(self, what: str) -> StoreUnavailableError:
        self.actor.tell(f"    gets a 503 for {what}")
        return StoreUnavailableError(f"no answer to {what}", next_step="try again")

    def put_new(self, key: str, data: bytes) -> None:
        """Create an object; the answer may be lost, or come before the effect."""
        what = f"put {key}"
        world = self.actor.world
        called = world.now
        asleep = self.actor.suffers("sleep", world.mix.sleep)
        if asleep:
            self.actor.sleep(what)
        self.actor.request(what)
        self.counters.put += 1
        if world.now - called > IN_FLIGHT and not asleep:
            # Only sleepers (``simulation.sleepers``) stop between their last look at the clock and
            # this; what a connection cannot do, no other pause in this very place may do.
            raise OutcomeUnknownError(f"{key} timed out", next_step="read it back")
        if key.startswith(world.paths.txn_dir):
            world.looked.setdefault(data, world.listed.get(self.actor.name, 0))
        if self._fails():
            self._faulty_put(key, data)
            return
        if key in world.objects:
            raise ObjectExistsError(f"{key} exists", next_step="read it back")
        world.put(key, data)
        self.actor.answered(what)
        if key.startswith(world.paths.txn_dir) and self.actor.suffers("nap", world.mix.nap):
            self.actor.stand_still(self.actor.r.randint(100, 900))

    def _faulty_put(self, key: str, data: bytes) -> None:
        world = self.actor.world
        kind = self.actor.r.choice(["unsent", "lost", "repeated", "late", "conflict"])
        self.actor.tell(f"    {_FAULTS[kind]}")
        if kind == "unsent":
            raise StoreUnavailableError(f"{key} was not sent", next_step="try again")
        if kind == "late":
            due = world.step + self.actor.r.randint(1, 200)
            world.late.append(LatePut(due, world.now, key, data))
            raise OutcomeUnknownError(f"no answer to {key}", next_step="read it back")
        if kind != "conflict" and key not in world.objects:
            world.put(key, data)
        if kind == "lost":
            raise OutcomeUnknownError(f"no answer to {key}", next_step="read it back")
        # The client repeated it, or two puts were in flight.
        raise ObjectExistsError(f"{key} exists", next_step="read it back")

    def put_file(self, key: str, file: Path | bytes) -> None:
        """Store a file under a new key."""
        self.put_data(key, file if isinstance(file, bytes) else file.read_bytes())

    def put_data(self, key: str, data: bytes) -> None:
        """Store bytes under a new key."""
        what = f"upload {key}"
        self.actor.request(what)
        self.counters.put += 1
        if self._fails():
            raise self._unavailable(what)
        self.actor.world.put(key, data)
        self.actor.world.uploaded[key] = self.actor.name
        self.actor.answered(what)

    def copy(self, source: str, key: str) -> None:
        """Copy an object within the store."""
        self.put_data(key, self._read(source))

    def _read(self, key: str) -> bytes:
        found = self.actor.world.objects.get(key)
        if found is None:
            raise ObjectNotFoundError(f"{key} is not there", next_step="look for it")
        return found.data

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        what = f"get {key}"
        self.actor.request(what)
        self.counters.get += 1
        if self._fails(0.5):
            raise self._unavailable(what)
        return self._read(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return a range of an object's bytes."""
        return self.get(key)[start : start + length]

    def get_file(self, key: str, path: Path) -> int:
        """Write an object to a file."""
        return path.write_bytes(self.get(key))

    def get_range_into(self, key: str, start: int, length: int, file: BinaryIO) -> None:
        """Write a range of an object's bytes to an open file."""
        file.write(self.get_range(key, start, length))

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield objects in random order; interrupted from time to time, not at every object."""
        order = list(keys)
        self.actor.r.shuffle(order)
        for key in order:
            try:
                if self.actor.r.random() < 0.3:
                    yield key, self.get(key)
                else:
                    self.counters.get += 1
                    yield key, self._read(key)
            except ObjectNotFoundError:
                yield key, None

    def get_heads(self, keys: Sequence[str], length: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield the first bytes of objects, as ``get_many``."""
        for key, data in self.get_many(keys):
            yield key, None if data is None else data[:length]

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Yield objects page by page; each page shows its own moment."""
        last, world = start_after, self.actor.world
        while True:
            what = f"list {prefix} after {last}"
            self.actor.request(what)
            if prefix == world.paths.log_dir and last == start_after:
                world.listed[self.actor.name] = world.step
            self.counters.list += 1
            if self._fails(0.5):
                raise self._unavailable(what)
            objects = self.actor.world.objects
            after = (k for k in sorted(objects) if k.startswith(prefix) and k > (last or ""))
            page = [ObjectMeta(k, len(objects[k].data), objects[k].at) for k in islice(after, PAGE)]
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1].key

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders right below a prefix."""
        self.actor.request(f"folders {prefix}")
        self.counters.list += 1
        below = (k.removeprefix(prefix) for k in self.actor.world.objects if k.startswith(prefix))
        names = {key.partition("/")[0] for key in below if "/" in key}
        return iter(sorted(f"{prefix}{name}/" for name in names if name))

    def head(self, key: str) -> ObjectMeta:
        """Return size and time of an object."""
        self.actor.request(f"head {key}")
        self.counters.head += 1
        size = len(self._read(key))
        return ObjectMeta(key, size, self.actor.world.objects[key].at)

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        """Delete in batches; single keys may fail, with or without an effect."""
        rest = iter(keys)
        while batch := list(islice(rest, BATCH)):
            what = f"delete {' '.join(batch)}"
            self.actor.request(what)
            self.counters.delete += 1
            for key in batch:
                yield self._delete(key)
            self.actor.answered(what)

    def _delete(self, key: str) -> Deleted:
        failed = self._fails()
        if not failed or self.actor.r.random() < 0.5:
            self.actor.world.on_delete(key, self.actor.number)
            self.actor.world.remove(key)
        if not failed:
            return Deleted(key)
        return Deleted(key, StoreError(f"{key}: no answer", next_step="try again"))
