"""Findings of a check, counted by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]
"""error: rows are missing, doubled or wrong, or will be. warning: a rule is broken and somebody
should look. note: worth knowing; nothing is wrong."""
SHOWN = 100
"""Findings of one kind that are listed one by one."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An irregularity, or a fact worth knowing."""

    kind: str
    severity: Severity
    object: str
    """Key; of several objects of one kind the first."""
    sentence: str
    next_step: str


@dataclass(slots=True)
class Findings:
    """Collects findings; of each kind the first hundred are kept, the rest counted."""

    listed: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    severities: Counter[Severity] = field(default_factory=Counter)

    def add(self, severity: Severity, kind: str, key: str, sentence: str, next_step: str) -> None:
        """Take one finding in."""
        self.counts[kind] += 1
        self.severities[severity] += 1
        if self.counts[kind] <= SHOWN:
            self.listed.append(
                Finding(
                    kind=kind, severity=severity, object=key, sentence=sentence, next_step=next_step
                )
            )


@dataclass(slots=True)
class Sum:
    """Objects that are reported together."""

    first: str = ""
    count: int = 0
    bytes: int = 0

    def add(self, key: str, size: int) -> None:
        self.first = self.first or key
        self.count += 1
        self.bytes += size
