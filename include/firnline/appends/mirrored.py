"""The publication that an append was asked for, as its caller learns of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firnline.shown import Shown


@dataclass(frozen=True, slots=True, repr=False)
class MirrorOutcome(Shown):
    """The result of a publication after an append, which stands in every case."""

    table: str
    published: bool
    """Every mirror of the table shows the append; False: a later publication will."""
    said: str
    """What became of each mirror, or why there was no publication, in words."""
    error: Exception | None
    """What the publication failed of; None if it did not, also where a mirror waits."""
    requests: dict[str, int]
    """Store requests and bytes of the publication by kind (``store.base.Counters``)."""
    warnings: tuple[str, ...] = ()
    """Failures that cost time or space only, and what readers do not cope with."""

    def _title(self) -> str:
        """Return of which table it is."""
        return f"MirrorOutcome of {self.table}"

    def _facts(self) -> Mapping[str, str]:
        """Return what there is to know."""
        warnings = {"warnings": "; ".join(self.warnings)} if self.warnings else {}
        return {"published": "yes" if self.published else "no", "said": self.said, **warnings}
