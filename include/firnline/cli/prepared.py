"""Output of prepared changes: which rows they would remove, add and change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.cli import output
from firnline.operations.prepared.evidence import sample_text
from firnline.pages import Column
from firnline.units import counted

SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has up to 1,000."""


def render_prepared(data: dict[str, Any]) -> None:
    """Print the report of a prepare: its evidence, its id and how to decide."""
    name, change = data["table"], data["id"]
    if change is None:
        output.line(f"Nothing would change in {name}, so nothing is prepared.")
        return
    render_evidence(name, data["evidence"])
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
    output.to_run(f"firnline rewrite {table} --commit {change}")
    output.to_run(f"firnline rewrite {table} --discard {change}")


def render_commit(data: dict[str, Any]) -> None:
    """Print what the commit of a prepared change would do."""
    render_evidence(data["table"], data["evidence"])
    old, new = _parts(data)
    output.line(f"A commit of {data['id']} would put {new} in the place of {old}.")


def render_discard(data: dict[str, Any]) -> None:
    """Print what the discard of a prepared change would do."""
    render_evidence(data["table"], data["evidence"])
    output.line(f"A discard of {data['id']} would delete {_parts(data)[1]}, which nobody sees.")


def _parts(data: dict[str, Any]) -> tuple[str, str]:
    """Return how many parts would be replaced, and how many are new."""
    counts = data["counts"]
    return counted(counts["parts_in"], "part"), counted(counts.get("parts_out", 0), "new part")


def render_evidence(table: str, shown: Mapping[str, Any]) -> None:
    """Print the difference: a row per partition, changed columns, sample rows, assertions."""
    _partitions(table, shown)
    if shown["columns"]:
        columns = [Column("column", wrap=True), Column("values changed", number=True)]
        most = sorted(shown["columns"].items(), key=lambda item: (-item[1], item[0]))
        output.table(columns, ([name, output.number(count)] for name, count in most))
        output.line()
    if shown.get("samples"):
        _samples(shown["samples"])
    if shown.get("assertions"):
        output.table([Column("holds", wrap=True)], ([one] for one in shown["assertions"]))
        output.line()


def _partitions(table: str, shown: Mapping[str, Any]) -> None:
    number = output.number
    kinds = ("removed", "added", "changed") if shown["keys"] else ("removed", "added")
    columns = [
        Column("partition", wrap=True),
        Column("rows", number=True),
        *(Column(kind, number=True) for kind in kinds),
    ]

    def row(name: str, figures: Mapping[str, Any]) -> list[str]:
        rows = f"{number(figures['rows_before'])} → {number(figures['rows_after'])}"
        return [name, rows, *(number(figures[kind]) for kind in kinds)]

    rows = [row(each["partition"] or "-", each) for each in shown["partitions"][:SHOWN]]
    footer = row(counted(shown["partition_count"], "partition"), shown)
    output.table(columns, rows, footer if shown["partition_count"] > 1 else None)
    if shown["partition_count"] > len(rows):
        more = number(shown["partition_count"] - len(rows))
        output.line(f"and {more} more; `firnline rewrite {table} --prepared --json` has them")
    if shown["keys"]:
        output.line(f"Rows are matched by {', '.join(shown['keys'])}.")
    elif shown["added"]:
        output.line("A changed row counts as one removed and one added: no key matches rows.")
        output.line("(--key names one, for a new prepare.)")
    output.line()


def _samples(samples: list[dict[str, Any]]) -> None:
    of = {one["partition"] or "-" for one in samples}
    several = len(of) > 1
    if not several:
        output.line(f"Sample rows, of {of.pop()}:")
    columns = [
        Column("sample", style="dim"),
        *[Column("partition", wrap=True)] * several,
        Column("row", wrap=True),
    ]
    rows = [
        [one["kind"], *[one["partition"] or "-"] * several, sample_text(one)] for one in samples
    ]
    output.table(columns, rows)
    output.line()


def render_waiting(data: dict[str, Any]) -> None:
    """Print the prepared changes of a table."""
    if not data["prepared"]:
        output.line(f"Nothing is prepared in {data['table']}.")
        return
    for one in data["prepared"]:
        output.pairs(_waiting(one))
        output.line()
    output.line(f"`firnline rewrite {data['table']} --commit ID --dry-run` shows the rows of one.")


def _waiting(one: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is to be known of a change before one looks at its rows."""
    from firnline.units import about_duration, about_size

    shown, options, run = one["evidence"], one["options"], one["run"]
    kinds = ", ".join(f"{output.number(shown.get(k, 0))} {k}" for k in ("removed", "added"))
    if shown.get("keys"):
        kinds += f", {output.number(shown.get('changed', 0))} changed"
    stays = "where" if options.get("where") else "sql"
    partitions = counted(shown.get("partition_count", 0), "partition")
    who = run.get("user") or run.get("dag_id") or ""
    by = f" by {who}" if who else ""
    found = [
        ("prepared", one["id"]),
        ("since", f"{output.when(one['t'])}{by}, kept for {about_duration(one['keep'])}"),
        (stays, options.get(stays) or "-"),
        ("rows", f"{kinds}, in {partitions}"),
        ("new parts", f"{output.number(one['parts'])}, {about_size(one['bytes'])}"),
    ]
    if one["begun"]:
        found.append(("begun", "somebody has decided already: give the same decision again"))
    return found


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
