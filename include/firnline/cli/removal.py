"""Output of commands that drop partitions."""

from __future__ import annotations

from typing import Any

from firnline.cli import output
from firnline.cli.output import requests_text

SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has all."""


def sentence(data: dict[str, Any]) -> str:
    """Return the totals as ``3 parts with 1,200 rows (1.1 MiB)``."""
    from firnline.units import about_size

    number, parts, unknown = output.number, data["parts"], data["parts_without_rows"]
    rows = f"{number(data['rows'])} rows"
    if unknown:
        rows += f" and those of {number(unknown)} parts that do not say"
    noun = "part" if parts == 1 else "parts"
    return f"{number(parts)} {noun} with {rows} ({about_size(data['bytes'])})"


def render_report(data: dict[str, Any]) -> None:
    """Print the report of a drop or a TTL run."""
    from firnline.units import about_duration, about_size

    number = output.number
    unknown = data["parts_without_rows"]
    more = f", and those of {number(unknown)} parts that do not say" if unknown else ""
    again = " (by an earlier try of this run)" if data["done_earlier"] else ""
    names = [name or "-" for name in data["partitions"][:SHOWN]]
    left_out = data["partition_count"] - len(names)
    output.pairs(
        [
            ("dropped", f"{number(data['parts'])} parts"),
            ("rows", f"{number(data['rows'])}{more}"),
            ("bytes", f"{about_size(data['bytes'])}, freed by clean-up after the grace"),
            ("partitions", ", ".join(names) + (f" and {number(left_out)} more" * (left_out > 0))),
            ("transaction", f"{number(data['transaction'])}{again}"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
