"""Progress of an import."""

from __future__ import annotations

import msgspec

from firnline.units import counted


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an import: first the footers, then the tasks, then the copies."""

    footers: int = 0
    """Files to look at; 0 once they were."""
    footers_done: int = 0
    files: int = 0
    """Files to copy."""
    files_done: int = 0
    tasks: int = 0
    """Tasks that read and write rows."""
    tasks_done: int = 0

    @property
    def text(self) -> str:
        """Return it in words."""
        if self.footers:
            return f"{self.footers_done:,} of {counted(self.footers, 'file')} looked at"
        tasks = f"{self.tasks_done:,} of {counted(self.tasks, 'task')} done, " if self.tasks else ""
        return f"{tasks}{self.files_done:,} of {counted(self.files, 'file')} copied"
