"""Output of prepared changes: which rows they would remove, add and change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.cli import output
from firnline.units import counted

SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has up to 1,000."""


def render_prepared(data: dict[str, Any]) -> None:
    """Print the report of a prepare: its evidence, its id and how to decide."""
    name, change = data["table"], data["id"]
    if change is None:
        output.line(f"Nothing would change in {name}, so nothing is prepared.")
        return
    render_evidence(data["evidence"])
    from firnline.units import about_duration, about_size

    output.pairs(
        [
            ("prepared", change + (" (by an earlier try of this run)" if data["earlier"] else "")),
            ("made from", f"the table as of transaction {output.number(data['seq'])}"),
            ("new parts", about_size(data["bytes"])),
            ("kept for", about_duration(data["keep"])),
            ("requests", output.requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    output.line()
    render_choices(name, change)


def render_choices(table: str, change: str) -> None:
    """Print the two commands that decide on a change."""
    output.line("Nobody sees it yet. To commit exactly these parts, or to delete them:")
    output.plain(f"  firnline rewrite {table} --commit {change}")
    output.plain(f"  firnline rewrite {table} --discard {change}")


def render_evidence(shown: Mapping[str, Any]) -> None:
    """Print the difference: a row per partition, changed columns, sample rows, assertions."""
    _partitions(shown)
    if shown["columns"]:
        columns = [output.Column("column", wrap=True), output.Column("values changed", number=True)]
        most = sorted(shown["columns"].items(), key=lambda item: (-item[1], item[0]))
        output.table(columns, ([name, output.number(count)] for name, count in most))
        output.line()
    if shown.get("samples"):
        _samples(shown["samples"])
    if shown.get("assertions"):
        output.table([output.Column("holds", wrap=True)], ([one] for one in shown["assertions"]))
        output.line()


def _partitions(shown: Mapping[str, Any]) -> None:
    number = output.number
    kinds = ("removed", "added", "changed") if shown["keys"] else ("removed", "added")
    columns = [
        output.Column("partition", wrap=True),
        output.Column("rows", number=True),
        *(output.Column(kind, number=True) for kind in kinds),
    ]

    def row(name: str, figures: Mapping[str, Any]) -> list[str]:
        rows = f"{number(figures['rows_before'])} → {number(figures['rows_after'])}"
        return [name, rows, *(number(figures[kind]) for kind in kinds)]

    rows = [row(each["partition"] or "-", each) for each in shown["partitions"][:SHOWN]]
    footer = row(counted(shown["partition_count"], "partition"), shown)
    output.table(columns, rows, footer if shown["partition_count"] > 1 else None)
    if shown["partition_count"] > len(rows):
        output.line(f"and {number(shown['partition_count'] - len(rows))} more; --json has them")
    output.line(
        f"Rows are matched by {', '.join(shown['keys'])}."
        if shown["keys"]
        else "A changed row counts as one removed and one added: no key matches rows (--key)."
    )
    output.line()


def _samples(samples: list[dict[str, Any]]) -> None:
    columns = [
        output.Column("sample", style="dim"),
        output.Column("partition", wrap=True, dispensable=1),
        output.Column("row", wrap=True),
    ]
    rows = [[one["kind"], one["partition"] or "-", sample_text(one)] for one in samples]
    output.table(columns, rows)
    output.line()


def sample_text(sample: Mapping[str, Any]) -> str:
    """Return a row as ``n=1, s=s1 → one``."""
    before, after = sample.get("before", {}), sample.get("after", {})
    return ", ".join(
        f"{name}={_value(before, after, name)}" for name in dict.fromkeys([*before, *after])
    )


def _value(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> str:
    sides = [_text(side[name]) for side in (before, after) if name in side]
    return " → ".join(dict.fromkeys(sides))


def _text(value: str | None) -> str:
    return "null" if value is None else value


def render_waiting(data: dict[str, Any]) -> None:
    """Print the prepared changes of a table."""
    if not data["prepared"]:
        output.line(f"Nothing is prepared in {data['table']}.")
        return
    from firnline.units import about_size

    columns = [
        output.Column("prepared", wrap=True),
        output.Column("since"),
        output.Column("by", dispensable=2),
        output.Column("rewrite", wrap=True, dispensable=1),
        *(output.Column(title, number=True) for title in ("removed", "added", "changed", "bytes")),
    ]
    rows = []
    for one in data["prepared"]:
        shown, options, run = one["evidence"], one["options"], one["run"]
        kinds = (output.number(shown.get(kind, 0)) for kind in ("removed", "added", "changed"))
        begun = " (commit begun)" if one["begun"] else ""
        rows.append(
            [
                one["id"] + begun,
                output.when(one["t"]),
                run.get("user") or run.get("dag_id") or "-",
                options.get("where") or options.get("sql") or "-",
                *kinds,
                about_size(one["bytes"]),
            ]
        )
    output.table(columns, rows)


def render_committed(data: dict[str, Any]) -> None:
    """Print the report of a commit."""
    from firnline.units import about_duration

    number, counts = output.number, data["counts"]
    again = " (by an earlier try)" if data["earlier"] else ""
    removed = counts.get("rows_removed", 0)
    output.pairs(
        [
            ("committed", f"transaction {number(data['transaction'])}{again}"),
            ("rows", f"{number(removed)} vanished"),
            ("parts", f"{number(counts['parts_in'])} → {number(counts.get('parts_out', 0))}"),
            ("requests", output.requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )


def render_discarded(data: dict[str, Any]) -> None:
    """Print the report of a discard."""
    from firnline.units import about_size

    size = about_size(data["bytes"])
    output.line(
        f"Prepared change {data['id']} is discarded: {counted(data['parts'], 'part')} ({size}) "
        f"deleted. {data['table']} is as it was."
    )
