"""Result of a publication of a mirror, in any format."""

from __future__ import annotations

import msgspec

from firnline.mirror.hold import Hold

ATTEMPTS = 20
"""Versions at most that rivals may write before a run gives up."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a publication: the newest version, and how it came about."""

    version: int | None
    """Newest version of the mirror; None for a table without one."""
    written: bool
    """This run wrote it (dry run: would write one more)."""
    seq: int
    """Newest transaction of the table."""
    shown: int | None
    """Newest transaction that the mirror shows."""
    adds: int = 0
    removes: int = 0
    files: int = 0
    """Files that the mirror shows."""
    rearranged: int = 0
    """Files among those that come and go whose rows are the same as before."""
    columns_changed: bool = False
    repaired: bool = False
    """The mirror was damaged, and this version states everything again that readers need."""
    replayed: bool = False
    """The mirror itself was read, since the table's log did not tell what had changed."""
    vectors: int = 0
    """Parts of which the version hides rows (dry run: may hide); in a format without deletion
    vectors none."""
    vectors_made: int = 0
    """Parts among them that were looked through for it (dry run: would be)."""
    hold: Hold | None = None
    """Why the mirror waits at the version before."""
    lost_races: int = 0
    stated: tuple[str, ...] = ()
    """Formats of all mirrors that the table states."""
    grace: int = 0
    """The longest that a reader of the table may have, ms."""
    warnings: tuple[str, ...] = ()
    """Sentences about what somebody has to repair elsewhere."""
