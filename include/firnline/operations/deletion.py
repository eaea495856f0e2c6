"""Deletes objects in batches, at a bounded rate, and counts only what the store confirms.

Several batches are in flight at any time. Where the store asks to slow down, for a whole batch or
for some of its keys, the rate falls (``delete_rate``) and these keys alone are sent again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from firnline.errors import StoreError
from firnline.operations.delete_rate import DeleteRate
from firnline.store.base import Deleted, DeletesBatches, Store
from firnline.store.sizes import BATCH
from firnline.table import Table
from firnline.units import about_duration, counted

_LOG = logging.getLogger(__name__)
_SHOWN = 100
_PIECE_MS = 250
GIVE_UP_MS = 300_000
"""Time of nothing but refusals after which a run asks the store no more, milliseconds."""

_Send = Callable[[Sequence[str]], "Future[Sequence[Deleted]]"]


class DeleteProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a run, for display."""

    objects: int
    """Objects that the run is to delete."""
    deleted: int
    failed: int
    per_second: int = 0
    """Keys per second that the run may send now."""
    slowed: bool = False
    """That is less than its bound, because the store asks to slow down."""
    elapsed_ms: int = 0
    """Since the first batch."""

    @property
    def left(self) -> int:
        """Objects about which nothing is known yet."""
        return max(0, self.objects - self.deleted - self.failed)

    @property
    def text(self) -> str:
        """All but speed and time, in words."""
        words = [f"{self.deleted:,} of {self.objects:,} objects deleted"]
        words += [f"{self.failed:,} not"] if self.failed else []
        words += [f"{self.left:,} left"] if self.left else []
        words += [slow_down(self.per_second)] if self.slowed and self.left else []
        return ", ".join(words)

    def __str__(self) -> str:
        """Return all of it in words, for a log."""
        done = self.deleted + self.failed
        if not done or not self.left or not self.elapsed_ms:
            return self.text
        speed = counted(round(1000 * done / self.elapsed_ms), "object")
        rest = about_duration(self.elapsed_ms * self.left // done)
        return f"{self.text}; {speed} a second, about {rest} left"


def slow_down(per_second: int) -> str:
    """Return what a run says that sends less because the store asked for it."""
    return f"the store asks to slow down: {counted(per_second, 'key')} a second"


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
    """Set when a whole batch was refused, or all of them for long: the rest was not sent."""
    _rate: DeleteRate | None = None
    _began_ms: int = 0
    _well_ms: int = 0
    """Time of the last answer that confirmed a key."""
    _unsent: str = "not sent, after a whole batch was refused"
    """Why the rest is not sent, once it has given up."""

    def delete(self, keys: Sequence[str]) -> frozenset[str]:
        """Delete objects; returns those that are confirmed gone (not found counts as gone).

        A key that fails for another reason than a store that is asked too much is not sent again.
        After ``GIVE_UP_MS`` of nothing but such refusals, or a batch without a single success, the
        rest is not sent.

        Requests: one for 1,000 keys where the store can, else one for each key. Those that the
        store refuses because it is asked too much come on top, as do smaller batches while it
        asks to slow down (a second's worth of keys each).
        """
        rate, done = self._paced(), set[str]()
        todo = _Queue(keys)
        self._well_ms = self.table.clock.elapsed_ms()
        flight: deque[tuple[Sequence[str], int, Future[Sequence[Deleted]]]] = deque()
        with _sending(self.table.store) as (send, at_once):
            while todo or flight:
                if flight and (flight[0][2].done() or len(flight) == at_once or not todo):
                    batch, turn, answers = flight.popleft()
                    todo.again += self._take(batch, turn, answers.result(), done)
                elif self.gave_up:
                    self._fail(dict.fromkeys(todo.next(BATCH), self._unsent))
                elif (wait_ms := rate.wait_ms()) > 0:
                    # In short pieces: an answer that comes meanwhile may change the rate.
                    self.table.clock.sleep(min(wait_ms, _PIECE_MS) / 1000)
                else:
                    batch = todo.next(self._size())
                    flight.append((batch, rate.send(len(batch)), send(batch)))
        if self.gave_up:
            self._report_progress()
        return frozenset(done)

    def answered(self, key: str, error: StoreError | None) -> None:
        """Count the answer to a request that the caller sent itself."""
        if error is None:
            self.confirmed.add(key)
        else:
            self._fail({key: str(error)})
        self._report_progress()

    def _paced(self) -> DeleteRate:
        """Return the rate, which is one for all that this run deletes."""
        if self._rate is None:
            clock = self.table.clock
            self._rate = DeleteRate(clock, self.table.settings.cleanup.deletes_per_second)
            self._began_ms = clock.elapsed_ms()
        return self._rate

    def _size(self) -> int:
        """Return the keys of the next batch; of one second while the store asks to slow down."""
        rate = self._paced()
        return min(BATCH, max(rate.per_second, 1)) if rate.slowed else BATCH

    def _take(
        self, batch: Sequence[str], turn: int, answers: Sequence[Deleted], done: set[str]
    ) -> list[str]:
        """Note the answers to a batch; return the keys to send again."""
        silent = dict.fromkeys(batch, "the store gave no answer for it")
        again: dict[str, str] = {}
        well = 0
        for answer in answers:
            if answer.error is None:
                if silent.pop(answer.key, None) is not None:
                    well += 1
                    done.add(answer.key)
                    self.confirmed.add(answer.key)
            elif answer.slow and answer.key in silent:
                del silent[answer.key]
                again[answer.key] = str(answer.error)
            else:
                silent[answer.key] = str(answer.error)
        self._fail(silent)
        self._adapt(turn, well, again)
        # One object may be locked; a batch without a single success is a store that refuses.
        if not well and not again and len(batch) > 1:
            self.gave_up = True
        self._report_progress()
        return list(again)

    def _adapt(self, turn: int, well: int, again: dict[str, str]) -> None:
        """Let the rate rise or fall; give up if the store has only refused for too long."""
        rate, now = self._paced(), self.table.clock.elapsed_ms()
        if well:
            self._well_ms = now
        if not again:
            rate.went_well(well)
            return
        if rate.refused(turn):
            name = self.table.settings.name
            _LOG.info("deleting from table %s: %s", name, slow_down(rate.per_second))
        if now - self._well_ms >= GIVE_UP_MS:
            self.gave_up = True
            self._unsent = (
                f"the store refuses to delete anything for {about_duration(GIVE_UP_MS)}, down to "
                f"{counted(rate.per_second, 'key')} a second: {next(iter(again.values()))}"
            )

    def _fail(self, messages: dict[str, str]) -> None:
        self.failed += len(messages)
        room = _SHOWN - len(self.failures)
        shown = list(messages.items())[: max(room, 0)]
        self.failures += [NotDeleted(key=key, message=message) for key, message in shown]

    def _report_progress(self) -> None:
        if self.on_progress is None:
            return
        rate = self._paced()
        state = DeleteProgress(
            objects=self.objects,
            deleted=len(self.confirmed),
            failed=self.failed,
            per_second=rate.per_second,
            slowed=rate.slowed,
            elapsed_ms=self.table.clock.elapsed_ms() - self._began_ms,
        )
        self.on_progress(state)


@dataclass
class _Queue:
    """Keys to send: those that the store refused for now go last."""

    keys: Sequence[str]
    again: list[str] = field(default_factory=list)
    _taken: int = 0

    def __bool__(self) -> bool:
        return self._taken < len(self.keys) or bool(self.again)

    def next(self, most: int) -> Sequence[str]:
        """Take the next batch of at most this many keys; none only if the queue is empty."""
        if self._taken >= len(self.keys):
            self.keys, self.again, self._taken = self.again, [], 0
        self._taken += most
        return self.keys[self._taken - most : self._taken]


@contextmanager
def _sending(store: Store) -> Iterator[tuple[_Send, int]]:
    """Yield what sends a batch, and how many may be in flight.

    A store that is asked for one batch at a time is asked in this thread.
    """
    if not isinstance(store, DeletesBatches):
        yield lambda batch: _answered(list(store.delete_many(batch))), 1
    elif store.batches_at_once == 1:
        yield lambda batch: _answered(store.delete_batch(batch)), 1
    else:
        at_once = store.batches_at_once
        with ThreadPoolExecutor(at_once, thread_name_prefix="firnline-delete") as pool:
            yield lambda batch: pool.submit(store.delete_batch, batch), at_once


def _answered(answers: Sequence[Deleted]) -> Future[Sequence[Deleted]]:
    """Return the answers to a batch that was sent in this thread."""
    future: Future[Sequence[Deleted]] = Future()
    future.set_result(answers)
    return future
