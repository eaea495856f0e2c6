"""Checkpoints of states of a world: while one is usable, its reader must see the same rows.

Nobody in the world writes or reads them: that would be a request more, and every seed another
story. ``tests/crash/test_checkpoints.py`` is about those requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from firnline.commit.checkpoint import encode
from firnline.log import checkpoint as checkpoint_file
from firnline.log.checkpoint import Checkpoint
from firnline.state import checkpoint
from firnline.state.snapshot import Snapshot, build
from simulation.world import Violation

_KEPT = 4


@dataclass
class Checkpoints:
    """The newest checkpoints of a world."""

    held: list[Checkpoint] = field(default_factory=list)
    read: int = 0
    """Number of times that a checkpoint was usable."""

    def take(self, snapshot: Snapshot) -> None:
        """Encode a checkpoint of this state and decode it again."""
        key = f"{snapshot.paths.checkpoint_dir}{snapshot.seq}"
        made = checkpoint_file.decode(key, encode(snapshot), snapshot.paths)
        self.held = [*self.held, made][-_KEPT:]

    def check(
        self, snapshot: Snapshot, shown: list[int], shown_by: Callable[[Snapshot], list[int]]
    ) -> None:
        """Compare the rows with and without checkpoints. Raises Violation."""
        for one in self.held:
            if not checkpoint.is_usable(one, snapshot.listing):
                continue
            self.read += 1
            read = checkpoint.read_beside(one, snapshot.listing, snapshot.contents)
            state = build(snapshot.paths, read)
            if sorted(shown_by(state)) != sorted(shown):
                differ = sorted(set(shown_by(state)) ^ set(shown))
                raise Violation(f"with checkpoint {one.key} a reader sees other rows: {differ[:5]}")
