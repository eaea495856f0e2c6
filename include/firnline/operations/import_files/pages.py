"""The pages of import files: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import SHOWN
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    partitions, by_rows = data["partitions"], data["split"]
    if partitions or by_rows["files"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("files", "rows", "bytes")),
        ]
        rows = [
            [p["partition"] or "-", number(p["files"]), number(p["rows"]), about_size(p["bytes"])]
            for p in partitions[:SHOWN]
        ]
        if by_rows["files"]:
            figures = [number(by_rows["files"]), number(by_rows["rows"])]
            rows.append(["by their rows", *figures, about_size(by_rows["bytes"])])
        total = [number(data["files"]), number(data["rows"]), about_size(data["bytes"])]
        page.table(columns, rows, [f"{number(len(partitions))} in all", *total])
        page.line()
    page.conclusion(_summary(data))
    _tell_beside(page, data)
    return page


def _summary(data: Mapping[str, Any]) -> str:
    if not data["files"]:
        are = "is" if data["known"] == 1 else "are"
        already = f": {counted(data['known'], 'file')} {are} in it already" if data["known"] else ""
        return f"Nothing to import{already}."
    anew = data["anew"]["files"]
    read = f" and {number(anew)} read and written anew" if anew else ""
    already = f"; {number(data['known'])} are in it already" if data["known"] else ""
    return (
        f"{counted(data['files'], 'file')} to import, {number(data['copies'])} of them copied by "
        f"the store{read}, with about {counted(data['requests'], 'request')}{already}."
    )


def _tell_beside(page: Page, data: Mapping[str, Any]) -> None:
    """Print why files are written anew, and what is left out."""
    if data["path_columns"]:
        columns = ", ".join(f"{name} {kind}" for name, kind in data["path_columns"].items())
        page.line(f"Columns of the folders: {columns}.")
    anew = data["anew"]
    if anew["files"]:
        page.line(f"Read and written anew, {about_size(anew['bytes'])}:")
        _list(page, (f"{counted(n, 'file')}: {why}" for why, n in anew["why"].items()))
    for key, what in (("empty", "without a row"), ("ignored", "left out")):
        if data[key]:
            noun = "file" if key == "empty" else "object"
            page.line(f"{counted(len(data[key]), noun)} {what}:")
            _list(page, data[key])
    if data["changed"]:
        files = counted(len(data["changed"]), "file")
        page.line(f"{files} that were written again after they were imported, left out:")
        _list(page, data["changed"])
    if data["bad"]:
        page.line(f"{counted(len(data['bad']), 'file')} that cannot be taken, left out:")
        _list(page, (f"{each['reason']}; {each['next_step']}" for each in data["bad"]))


def _list(page: Page, lines: Iterable[str]) -> None:
    every = list(lines)
    for line in every[:SHOWN]:
        page.line(f"  {line}")
    if len(every) > SHOWN:
        page.line(f"  and {number(len(every) - SHOWN)} more; --json has all")


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = data["plan"]
    if data["log_file"] is None:
        page.line(_summary(plan))
        _tell_beside(page, plan)
        return page
    anew = plan["anew"]["files"]
    parts = counted(data["parts_written"], "part")
    read = f", {number(anew)} written anew as {parts}" if anew else ""
    copied = f"{counted(plan['files'], 'file')}, {number(plan['copies'])} of them copied{read}"
    page.pairs(
        [
            ("imported", copied),
            ("rows", number(plan["rows"])),
            ("bytes", about_size(plan["bytes"])),
            ("partitions", number(data["partitions"])),
            ("log file", data["log_file"]),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    _tell_beside(page, plan)
    return page


def folders_plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of the plan of all folders of a run (``FoldersPlan``)."""
    return _folders_page("to import", data)


def folders_report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of the report of all folders of a run (``FoldersReport``)."""
    return _folders_page("imported", data)


def _folders_page(done: str, data: Mapping[str, Any]) -> Page:
    page = Page()
    rows, size = counted(data["rows"], "row"), about_size(data["bytes"])
    anew = f", {number(data['anew'])} written anew" if data["anew"] else ""
    parts = data.get("parts_written", 0)
    as_parts = f" as {counted(parts, 'part')}" if parts else ""
    how = f"{number(data['copies'])} copied{anew}{as_parts}"
    amounts = f"{done}: {counted(data['files'], 'file')} of {rows} ({size}), {how}"
    page.line(amounts)
    columns = [Column("from"), *(Column(title, number=True) for title in ("files", "rows"))]
    page.table(
        columns,
        ([each["source"], number(each["files"]), number(each["rows"])] for each in data["folders"]),
    )
    if data["known"]:
        page.line(f"imported before: {counted(data['known'], 'file')}")
    for why, count in data["left_out"].items():
        page.line(f"left out: {counted(count, 'object')}: {why}")
    if data["bad"]:
        page.line(f"{counted(len(data['bad']), 'file')} that cannot be taken, left out:")
        _list(page, (f"{each['reason']}; {each['next_step']}" for each in data["bad"]))
    left_out = ", ".join(f"{counted(n, 'object')} ({why})" for why, n in data["left_out"].items())
    told = (amounts, f"left out: {left_out}" if left_out else "", bad_text(data["bad"]))
    page.in_short("; ".join(filter(None, told)))
    return page


def bad_text(bad: Sequence[Mapping[str, Any]]) -> str:
    """Return how many files cannot be taken, and why the first; empty without any."""
    if not bad:
        return ""
    which = "that cannot be taken" + ("" if len(bad) == 1 else ", the first")
    return f"{counted(len(bad), 'file')} {which}: {bad[0]['reason']}"
