"""docs/why.md: figures of docs/benchmarks.json, so that no page has figures of another run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.bootstrap import REPO
from tools.reference.markdown import table

RESULTS = REPO / "docs" / "benchmarks.json"
SECTIONS = ("sorted", "unsorted", "cold", "cleanup")
"""Those in which others do the same work."""
_TITLES = {
    "sorted": "[sorted merge](benchmarks.md#sorted-merge)",
    "unsorted": "[unsorted merge](benchmarks.md#unsorted-merge)",
    "cold": "[unsorted merge, cold](benchmarks.md#unsorted-merge-cold)",
    "cleanup": "[deletion of 100,000 dead parts](benchmarks.md#tombstone-clean-up)",
}


def blocks(results: Path = RESULTS) -> dict[str, str]:
    """Return the text of each block of the page."""
    sections: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))["sections"]
    rows = [
        (_TITLES[name], f"{figure['name']}: {figure['what']}", _seconds(figure), _cpu(figure))
        for name in SECTIONS
        for figure in sections[name]["figures"]
    ]
    return {"figures": table(("work", "by", "median s (fastest to slowest)", "CPU s"), rows)}


def _seconds(figure: dict[str, Any]) -> str:
    return f"{figure['median_s']:.2f} ({figure['min_s']:.2f} to {figure['max_s']:.2f})"


def _cpu(figure: dict[str, Any]) -> str:
    return f"{figure['cpu_s']:.1f}"
