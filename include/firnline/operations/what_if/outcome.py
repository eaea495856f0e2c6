"""The figures of a play, and of the real history. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firnline.operations.inspect.cost import Requests
from firnline.operations.what_if.ledger import Ledger
from firnline.operations.what_if.scans import Means


@dataclass(frozen=True, slots=True)
class Outcome:
    """What maintenance came to over a time."""

    parts: int
    """Live ones at the end."""
    bytes: int
    """Of the live parts at the end."""
    arrived: int
    """Bytes of the parts that came."""
    dropped: int
    """Bytes of parts that TTL and people have dropped."""
    shrunk: int
    """Bytes by which merges have written less than they read."""
    runs: int
    """Merges that had something to do."""
    parts_in: int
    parts_out: int
    read: int
    """Bytes that merges have read."""
    written: int
    """Bytes that merges have written."""
    requests: Requests
    """Of merges, clean-ups, TTL and the planner's looks at the table."""
    means: Means | None
    """Of scans; None where the records do not reach back so far."""

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        means: Means | None,
        *,
        parts: int,
        size: int,
        arrived: int,
        dropped: int = 0,
        shrunk: int = 0,
    ) -> Outcome:
        """Return the figures of a ledger with those of the table's state."""
        return cls(
            parts=parts,
            bytes=size,
            arrived=arrived,
            dropped=dropped,
            shrunk=shrunk,
            runs=ledger.runs,
            parts_in=ledger.parts_in,
            parts_out=ledger.parts_out,
            read=ledger.bytes_in,
            written=ledger.bytes_out,
            requests=ledger.requests,
            means=means,
        )

    @property
    def amplification(self) -> float | None:
        """Bytes written, by appends and merges, for each byte that came; None if none came."""
        return (self.arrived + self.written) / self.arrived if self.arrived else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data; sizes in bytes."""
        means = self.means
        return {
            "parts": self.parts,
            "bytes": self.bytes,
            "bytes_arrived": self.arrived,
            "bytes_dropped": self.dropped,
            "bytes_shrunk": self.shrunk,
            "merges": self.runs,
            "parts_in": self.parts_in,
            "parts_out": self.parts_out,
            "bytes_read": self.read,
            "bytes_written": self.written,
            "write_amplification": rounded(self.amplification),
            "requests": self.requests.to_json(),
            "mean_parts": None if means is None else rounded(means.parts),
            "mean_parts_of_yesterday": None if means is None else rounded(means.yesterday),
            "mean_log_files": None if means is None else rounded(means.logs),
        }


def rounded(value: float | None, digits: int = 2) -> float | None:
    """Return a figure for people and programs; None where it is not known."""
    return None if value is None else round(value, digits)
