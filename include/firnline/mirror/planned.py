"""A planned publication of a mirror in any format: whether it is due, and how it is reported."""

from __future__ import annotations

from firnline.commit.base import Base
from firnline.mirror.changes import Difference, State
from firnline.mirror.hold import Hold
from firnline.mirror.position import Position
from firnline.mirror.published import Published


class Planned:
    """The next version or snapshot on one head and one state; the formats add what they need."""

    base: Base
    difference: Difference
    state: State
    hold: Hold | None

    @property
    def position(self) -> Position | None:
        """The state that the head shows; None for a table without a mirror."""
        raise NotImplementedError

    @property
    def new_columns(self) -> bool:
        """Return True if the columns change with it."""
        raise NotImplementedError

    @property
    def due(self) -> bool:
        """Return True if there is something to publish, and it may be shown."""
        if self.hold is not None:
            return False
        at = self.position
        moved = at is None or at.seq != self.state.seq or at.seen != self.state.seen
        return moved or self.new_columns or not self.difference.empty

    @property
    def files(self) -> int:
        """Files after it."""
        return len(self.base.snapshot.live)

    def result(self, newest: int | None, *, written: bool, done: bool, lost: int) -> Published:
        """Return the result of the publication.

        Args:
            newest: the newest version now; None for a table without a mirror.
            written: this run wrote it, or would in a dry run.
            done: this run wrote it.
            lost: races for its number that rivals won.
        """
        at, difference = self.position, self.difference
        return Published(
            version=newest,
            written=written,
            seq=self.base.seq,
            shown=self.base.seq if done else (None if at is None else at.seq),
            adds=len(difference.adds),
            removes=len(difference.removes),
            files=self.files if done else (0 if at is None else at.files),
            rearranged=len(difference.rearranged),
            columns_changed=written and self.new_columns,
            replayed=difference.replayed,
            hold=self.hold,
            stated=() if self.base.properties is None else self.base.properties.mirrors,
            lost_races=lost,
        )
