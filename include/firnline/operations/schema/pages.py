"""The pages of a schema, and of what repairs or changes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import SHOWN, add_more
from firnline.pages import Column, Page, number, requests_text
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def schema_page(data: Mapping[str, Any]) -> Page:
    """Return the columns, and for conflicts the log files and parts behind each type."""
    page = Page()
    columns = [Column("column"), Column("type", wrap=True), Column("used for")]
    rows = [[c["column"], c["type"], ", ".join(c["used_for"])] for c in data["columns"]]
    for conflict in data["conflicts"]:
        types = dict.fromkeys(statement["type"] for statement in conflict["types"])
        rows.append([conflict["column"], " or ".join(types), ", ".join(conflict["used_for"])])
    page.table(columns, rows)
    for change in data["changes"]:
        page.line()
        page.line(
            f"Transaction {number(change['transaction'])}: {evolution(change, 'is')}; "
            f"{number(change['parts'])} of {counted(change['of_parts'], 'part')} "
            f"{'has' if change['parts'] == 1 else 'have'} it otherwise, until a merge rewrites "
            f"{'it' if change['parts'] == 1 else 'them'}."
        )
    if not data["conflicts"]:
        return page
    page.line()
    _statements(page, data["conflicts"])
    page.line()
    log_files(page, _minority(data["conflicts"]))
    page.line()
    page.line(
        f"Log files of {data['table']} contradict each other, and readers refuse it. "
        f"`{_fix_of(data)}` gives each the type of most of its bytes; with --rename instead of "
        "--type a column gets two names."
    )
    return page


def _fix_of(data: Mapping[str, Any]) -> str:
    """Return the command line that repairs all conflicts by the types of most bytes."""
    from firnline.types.schema import repair_command

    most = (_most(found) for found in data["conflicts"])
    return repair_command(data["table"], [(said["column"], said["type"]) for said in most])


def _most(conflict: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the statement about a column behind which most bytes stand."""
    found: Mapping[str, Any] = max(conflict["types"], key=lambda said: said["bytes"])
    return found


def _statements(page: Page, conflicts: Sequence[Mapping[str, Any]]) -> None:
    columns = [
        Column("column"),
        Column("type", wrap=True),
        *(Column(title, number=True) for title in ("log files", "parts", "rows", "bytes")),
        Column("first written", dispensable=1),
        Column("last written"),
    ]
    rows = []
    for statement in (statement for conflict in conflicts for statement in conflict["types"]):
        times = [file["t"] for file in statement["log_files"]]
        rows.append(
            [
                statement["column"],
                statement["type"],
                number(len(times)),
                number(statement["parts"]),
                number(statement["rows"]),
                about_size(statement["bytes"]),
                when(min(times)),
                when(max(times)),
            ]
        )
    page.table(columns, rows)


def _minority(conflicts: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return each log file once that states another type than most bytes of its column have."""
    by_key: dict[str, Mapping[str, Any]] = {}
    for conflict in conflicts:
        most = _most(conflict)
        for statement in conflict["types"]:
            if statement is most:
                continue
            for file in statement["log_files"]:
                row = by_key.setdefault(file["key"], {**file, "states": []})
                row["states"].append(f"{statement['column']} {statement['type']}")
    return sorted(by_key.values(), key=lambda file: str(file["key"]))


def log_files(page: Page, files: Sequence[Mapping[str, Any]], count: int | None = None) -> None:
    """Add the first log files with their writers."""
    count = len(files) if count is None else count
    if not files:
        return
    stating = "states" in files[0]
    columns = [
        Column("log file", wrap=True),
        Column("writer"),
        Column("written"),
        *([Column("states", wrap=True)] if stating else []),
    ]
    rows = [
        [
            file["key"].rpartition("/")[2],
            file["writer"],
            when(file["t"]),
            *([", ".join(file["states"])] if stating else []),
        ]
        for file in files[:SHOWN]
    ]
    page.table(columns, rows)
    add_more(page, count - len(rows))


def plan_page(data: Mapping[str, Any], *, evolves: bool = False) -> Page:
    """Return the plan of a repair, or of a change of columns."""
    page = Page()
    if not data["log_file_count"] and not data["parts_to_rewrite"]:
        seen = f" and {counted(data['parts_checked'], 'footer')}" if data["parts_checked"] else ""
        verb = "change" if evolves else "repair"
        page.line(
            f"Nothing to {verb} in {data['table']}: {_wish(data['columns'], 'is')}, as its log "
            f"files{seen} say."
        )
        return page
    log_files(page, data["log_files"], data["log_file_count"])
    page.line()
    _unreadable(page, ((u["key"], u["message"]) for u in data["unreadable"]))
    page.line(
        f"{_wish(data['columns'], 'would be')}: {number(data['parts_to_rewrite'])} of "
        f"{counted(data['parts_checked'], 'part')} looked at would be rewritten (about "
        f"{about_size(data['bytes_in'])}), "
        f"{counted(data['log_file_count'], 'log file')} corrected, with at most "
        f"{counted(data['requests'], 'request')} besides reading the log."
    )
    return page


def evolution(plan: Mapping[str, Any], verb: str) -> str:
    """Return a short description of a change of columns."""
    from firnline.log.schema_changes import Evolved

    what = Evolved(widen=plan["widen"], rename=plan["rename"], drop=tuple(plan["drop"]))
    return what.in_words(verb)


def _wish(columns: Sequence[Mapping[str, Any]], verb: str) -> str:
    return "; ".join(_wished(column, verb) for column in columns)


def _wished(column: Mapping[str, Any], verb: str) -> str:
    name, new = column["column"], column["rename"]
    if column.get("drop"):
        return f"{name} {verb} gone"
    if column["type"] is None:
        return f"{name} {verb} {new}"
    return f"{name} {verb} {column['type']}" + (f", and in another type {new}" if new else "")


def _unreadable(page: Page, parts: Iterable[tuple[str, str]]) -> None:
    rows = [[key.rpartition("/_data/")[2], message] for key, message in parts]
    if rows:
        columns = [Column("part", wrap=True), Column("does not read", wrap=True)]
        page.table(columns, rows[:SHOWN])
        page.line()


def failures_page(data: Mapping[str, Any]) -> Page:
    """Return the reasons why nothing was changed."""
    page = Page()
    columns = [Column("partition"), Column("not rewritten because", wrap=True)]
    page.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
    page.line()
    return page


def report_page(data: Mapping[str, Any], *, evolves: bool = False) -> Page:
    """Return the report of a repair, or of a change of columns."""
    page = Page()
    counts = defaultdict(int, data["counts"])
    if data["transaction"] is None:
        page.add(plan_page({"table": data["table"], **data["plan"]}, evolves=evolves))
        return page
    _unreadable(page, ((f["key"], f["message"]) for f in data["left"]))
    wish = _wish(data["plan"]["columns"], "is")
    page.pairs(
        [
            ("changed" if evolves else "repaired", wish),
            (
                "parts",
                (
                    f"{number(counts['parts_in'])} rewritten of "
                    f"{number(data['plan']['parts_checked'])} looked at"
                ),
            ),
            ("rows", number(counts["rows_out"])),
            ("bytes", f"{about_size(counts['bytes_in'])} → {about_size(counts['bytes_out'])}"),
            ("log files", f"{number(counts['logs_folded'])} corrected"),
            ("transaction", number(data["transaction"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    if data["conflict"] is not None:
        page.line()
        page.line(f"There is more to repair: {data['conflict']}.")
    return page


def _nothing(page: Page, data: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    if plan["widen"] or plan["rename"] or plan["drop"]:
        return False
    page.line(f"The columns of {data['table']} have these types already.")
    return True


def lazy_plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if not _nothing(page, data, data):
        page.line(
            f"{evolution(data, 'would be')}, for every reader at once; no part is read or written. "
            f"Merges write {counted(data['parts'], 'part')} "
            f"({about_size(data['bytes'])}) in the new form."
        )
    return page


def lazy_report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = data["plan"]
    if data["transaction"] is None and _nothing(page, data, plan):
        return page
    page.pairs(
        [
            ("changed", evolution(plan, "is")),
            ("to merge", f"{counted(plan['parts'], 'part')}, {about_size(plan['bytes'])}"),
            ("transaction", number(data["transaction"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page
