"""Something that is read in the background again and again, with its age, while somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from firnline.airflow.page.background import FAILED, Background
from firnline.clock import Clock
from firnline.errors import FirnlineError

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Last(Generic[ValueT]):
    """The last reading, and the state of the next one."""

    of: object = None
    """The settings by which it was read."""
    value: ValueT | None = None
    """Result of the last reading that succeeded."""
    read_ms: int | None = None
    """Time of ``value``, unix ms."""
    problem: str = ""
    """Message of the error of the last reading, with the next step; empty if it succeeded."""
    asked_ms: int | None = None
    """Start of the last reading, unix ms."""
    under_way: bool = False
    """True while that reading has not ended."""


class Repeated(Generic[ValueT]):
    """The last reading of something.

    Args:
        name: for the log of the API server.
        every_ms: age at which it is read again.
        clock: source of time.
        background: reads it.
    """

    def __init__(self, name: str, every_ms: int, clock: Clock, background: Background) -> None:
        self._name = name
        self._every_ms = every_ms
        self._clock = clock
        self._background = background
        self._last: Last[ValueT] = Last()  # frozen: set at once, so no lock is needed

    def get(self, of: object) -> Last[ValueT]:
        """Return what is known of something, at once; nothing if another thing was read last."""
        last = self._last
        return last if last.of == of else Last(of)

    def refresh(
        self,
        of: object,
        read: Callable[[ValueT | None], ValueT],
        then: Callable[[], object] = lambda: None,
        *,
        at_once: bool = False,
    ) -> None:
        """Have it read if what is known is stale; returns at once.

        Args:
            of: what is read.
            read: reads it; takes what is known of the same thing.
            then: called after it was read, in a thread of its own.
            at_once: what is known is known to be of the past. After an error it is not read sooner.
        """
        known = self._last
        last, now = self.get(of), self._clock.now_ms()
        is_young = last.asked_ms is not None and now - last.asked_ms < self._every_ms
        if not is_young or (at_once and not last.problem):
            self._background.start(self._name, lambda: self._read(known, of, read, then))

    def _read(
        self,
        known: Last[ValueT],
        of: object,
        read: Callable[[ValueT | None], ValueT],
        then: Callable[[], object],
    ) -> None:
        if self._last is not known and self._last.of == of:
            return  # two asked for it at one time: it was read since this one looked at its age
        began_ms = self._clock.now_ms()
        last = replace(self.get(of), asked_ms=began_ms, under_way=True)
        self._last = last
        problem = FAILED
        try:
            last = replace(last, value=read(last.value), read_ms=began_ms)
            problem = ""
        except FirnlineError as error:
            problem = f"{error.message}; {error.next_step}"
        finally:
            self._last = replace(last, problem=problem, under_way=False)
        if not problem:
            then()
