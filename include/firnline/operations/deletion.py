"""Deletes objects in batches, at a bounded rate, and counts only what the store confirms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from firnline.errors import StoreError
from firnline.store.sizes import BATCH
from firnline.table import Table

_AT_ONCE = 8
"""Batches sent to the store at once, at most, and only as many as the rate allows per second."""
_SHOWN = 100


class DeleteProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a run, for display."""

    objects: int
    """Objects that the run is to delete."""
    deleted: int
    failed: int


class NotDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """An object whose deletion was not confirmed."""

    key: str
    message: str


@dataclass
class Deleter:
    """Deletes objects for one run."""

    table: Table
    objects: int
    """Objects that the run is to delete, for the progress."""
    on_progress: Callable[[DeleteProgress], None] | None = None
    confirmed: set[str] = field(default_factory=set)
    failures: list[NotDeleted] = field(default_factory=list)
    """The first failures; ``failed`` counts all."""
    failed: int = 0
    gave_up: bool = False
    """Set when a whole batch was refused: the rest was not sent."""
    _began_ms: int | None = None
    _sent: int = 0

    def delete(self, keys: Sequence[str]) -> frozenset[str]:
        """Delete objects; returns those that are confirmed gone (not found counts as gone).

        Requests: one for 1,000 keys where the store can, else one for each key.
        """
        done: set[str] = set()
        rate = self.table.settings.cleanup.deletes_per_second
        size = BATCH * min(max(rate // BATCH, 1), _AT_ONCE)
        for batch in (keys[start : start + size] for start in range(0, len(keys), size)):
            if self.gave_up:
                self._fail(dict.fromkeys(batch, "not sent, after a whole batch was refused"))
                continue
            self._wait()
            done |= self._send(batch)
        return frozenset(done)

    def answered(self, key: str, error: StoreError | None) -> None:
        """Count the answer to a request that the caller sent itself."""
        if error is None:
            self.confirmed.add(key)
        else:
            self._fail({key: str(error)})
        self._report_progress()

    def _send(self, batch: Sequence[str]) -> set[str]:
        silent = dict.fromkeys(batch, "the store gave no answer for it")
        done: set[str] = set()
        self._sent += len(batch)
        for answer in self.table.store.delete_many(batch):
            if answer.error is None:
                silent.pop(answer.key, None)
                done.add(answer.key)
            else:
                silent[answer.key] = str(answer.error)
        self._fail(silent)
        # One object may be locked; a batch without a single success is a store that refuses.
        self.gave_up = not done and len(batch) > 1
        self.confirmed |= done
        self._report_progress()
        return done

    def _fail(self, messages: dict[str, str]) -> None:
        self.failed += len(messages)
        room = _SHOWN - len(self.failures)
        shown = list(messages.items())[: max(room, 0)]
        self.failures += [NotDeleted(key=key, message=message) for key, message in shown]

    def _report_progress(self) -> None:
        if self.on_progress is not None:
            done = len(self.confirmed)
            self.on_progress(DeleteProgress(objects=self.objects, deleted=done, failed=self.failed))

    def _wait(self) -> None:
        """Wait before a batch as long as the rate asks for after what was sent so far."""
        now = self.table.clock.elapsed_ms()
        if self._began_ms is None:
            self._began_ms = now
        due = self._began_ms + 1000 * self._sent // self.table.settings.cleanup.deletes_per_second
        if due > now:
            self.table.clock.sleep((due - now) / 1000)
