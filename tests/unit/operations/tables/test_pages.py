"""The page of the tables below a place."""

from __future__ import annotations

from typing import Any

from firnline.operations.tables.pages import tables_page

TABLE: dict[str, Any] = {
    "root": "s3://lake/a",
    "name": None,
    "state": "readable",
    "parts": 3,
    "bytes": 2048,
    "newest_ms": 1_000,
    "score": 90,
    "reason": "",
}


def shown(*tables: dict[str, Any], **more: Any) -> tuple[list[str], str]:
    data = {"url": "s3://lake", "depth": 3, "shallow": False, "looked_ms": 61_000, "to_add": []}
    data["links"] = []
    page = tables_page({**data, "tables": [{**TABLE, **each} for each in tables], **more})
    return list(page.lines()), page.sentence


def test_no_table_is_one_sentence() -> None:
    said = "No table at s3://lake or in 3 levels of folders below it"
    assert shown() == ([f"{said}."], said)


def test_links_are_said_once_and_with_no_table_too() -> None:
    said = (
        "Not followed: 1 symbolic link, file:///x/loop. A table behind one is listed by a URL that "
        "leads to it."
    )
    assert shown(links=["file:///x/loop"])[0][-1] == said
    assert shown({}, links=["file:///x/loop"])[0].count(said) == 1


def test_each_state_has_its_row_and_the_summary_counts_them() -> None:
    lines, sentence = shown(
        {},
        {"name": "b", "state": "unreadable", "reason": "the log is lost"},
        {"name": "c", "state": "not written"},
        to_add=["firnline init a --root s3://lake/a --yes"],
    )
    assert lines[0] == ("root s3://lake/a: settings -, score 90, parts 3, bytes 2.0 KiB, newest 1m")
    assert "cannot be read: the log is lost" in lines[1]
    assert lines[2].endswith("not written")
    assert sentence == (
        "2 tables, 1 cannot be read, 1 not in the settings, 1 in the settings and not written"
    )
    assert lines[-1] == "  firnline init a --root s3://lake/a --yes"


def test_shallow_has_no_figures() -> None:
    lines, _ = shown({"state": "found"}, shallow=True)
    assert lines[0] == "root s3://lake/a: settings -"
