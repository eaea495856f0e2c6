"""What people look at in shells and notebooks is short, and says what they want to know."""

from __future__ import annotations

from collections.abc import Callable
from getpass import getuser
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.appends.service import AppendResult
from firnline.log.txn_file import Counts
from firnline.operations.merge.run import MergeReport
from firnline.operations.runner import Report
from firnline.operations.verify.run import VerifyReport
from firnline.read.scan import Scan
from firnline.settings.load import find_table
from firnline.shown import LONGEST, Shown, small_table
from firnline.table import Table, open_table


class Texts(HTMLParser):
    """The texts of an HTML fragment, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def root(tmp_path: Path) -> str:
    with firnline.Appender(f"file://{tmp_path}/events") as appender:
        appender.append(pa.table({"n": [1, 2, 3], "page": ["home", "cart", "pay"]}))
    return f"file://{tmp_path}/events"


def cells(shown: Shown) -> dict[str, str]:
    title, *texts = Texts(shown._repr_html_()).texts
    assert title == shown._title()
    return dict(zip(texts[::2], texts[1::2], strict=True))


def test_a_scan_says_what_it_reads_and_of_how_much(root: str) -> None:
    scan = firnline.scan(root, ["page"], where="n > 1 and page in ('pay', 'cart') or n is null")
    said = cells(scan)
    assert repr(scan).startswith("<Scan of events: reads 1 of 1 part, ")
    assert said["where"] == "(n > 1 and page in ('pay', 'cart')) or n is null"
    assert (said["columns"], said["transaction"]) == ("page VARCHAR", "0")
    assert "where" not in cells(firnline.scan(root))


def test_an_appender_says_what_waits(root: str) -> None:
    with firnline.Appender(root, max_age_ms=600_000) as appender:
        appender.append([{"n": 4}, {"n": 5}])
        assert repr(appender) == (
            "<Appender to events: state open, waiting 2 rows, being written 0 buffers>"
        )
        (result,) = appender.flush()
    assert cells(appender)["state"] == "closed"
    assert repr(result).startswith("<AppendResult: rows 2, parts 1, size ")
    assert cells(result)["log file"].startswith("events/_log/")


def test_a_table_says_its_place_and_its_layout(tmp_path: Path) -> None:
    file = tmp_path / "tables.yaml"
    layout = "partition_by: [day(ts)], sort_by: [customer, ts desc]"
    file.write_text(f"tables: {{events: {{root: 'file://{tmp_path}/t', {layout}}}}}")
    table = open_table(find_table("events", file))
    assert cells(table) == {
        "root": f"file://{tmp_path}/t",
        "partition_by": "day(ts)",
        "sort_by": "customer, ts desc",
    }
    assert repr(table).startswith(f"<Table events: root file://{tmp_path}")


def test_a_report_says_its_figures_and_nothing_that_is_empty() -> None:
    report = MergeReport(
        table="events",
        dry_run=False,
        groups=4,
        groups_done=4,
        tasks=4,
        transactions=(1,),
        counts=Counts(parts_in=97, parts_out=4, bytes_in=206_800),
        failures=(),
        groups_lost=0,
        replans=0,
        requests={"get": 101, "put": 8, "delete": 0},
        seconds=1.5,
    )
    said = {"groups": "4", "groups_done": "4", "tasks": "4", "transactions": "1"}
    said |= {"parts_in": "97", "parts_out": "4", "bytes_in": "206,800"}
    assert cells(report) == {**said, "requests": "get 101, put 8", "seconds": "1.5"}
    assert repr(report).startswith("<MergeReport of events: groups 4, groups_done 4, tasks 4")


@pytest.mark.parametrize(
    "kind", [Scan, Table, firnline.Appender, AppendResult, Report, MergeReport, VerifyReport]
)
def test_what_people_meet_is_shown_in_this_way(kind: type[Shown]) -> None:
    assert kind.__repr__ is Shown.__repr__
    assert kind._repr_html_ is Shown._repr_html_


ERASED = firnline.EraseOptions(columns=("n",), keys=((1,),))
REWRITTEN = firnline.RewriteOptions(where="n = 1")
UPDATED = firnline.UpdateOptions(set=("n = 2",), where="n = 1")
DROPPED = firnline.DropOptions(partitions=("",))
PLANS: dict[str, Callable[[str], Any]] = {
    "MergePlan: parts_in 4, parts_out 1, ": firnline.plan_merge,
    "DeletePlan: mode eager, ": lambda root: firnline.plan_delete(root, "n = 1"),
    "ErasePlan: columns n, keys 1, ": lambda root: firnline.plan_erase(root, ERASED),
    "RewritePlan: ": lambda root: firnline.plan_rewrite(root, REWRITTEN),
    "DropPlan: parts 4, ": lambda root: firnline.plan_drop(root, DROPPED),
    "CleanupPlan": firnline.plan_cleanup,
    "ReadPlan: columns n, page, partitions 1, parts 4, ": lambda root: firnline.scan(root).plan,
}


@pytest.mark.long
@pytest.mark.parametrize("said", PLANS)
def test_a_plan_says_its_totals(root: str, said: str) -> None:
    for n in range(3):
        firnline.append_rows(root, [{"n": n, "page": "home"}])
    plan = PLANS[said](root)
    assert repr(plan).startswith(f"<{said}"), repr(plan)
    assert cells(plan).keys() == plan._facts().keys()


def test_every_line_is_short_and_every_text_is_escaped() -> None:
    class Long(Shown):
        def _title(self) -> str:
            return "<script>"

        def _facts(self) -> dict[str, str]:
            return {"a\nb": "x" * 10_000, "tag": "<b>&"}

    assert len(repr(Long())) == LONGEST
    assert "\n" not in repr(Long())
    assert Texts(Long()._repr_html_()).texts == ["<script>", "a\nb", "x" * 10_000, "tag", "<b>&"]
    assert "<script>" not in small_table(Long()._title(), Long()._facts())


@pytest.mark.long
def test_a_history_is_a_line_for_each_transaction_and_one_table(root: str) -> None:
    firnline.append_rows(root, [{"n": 4, "page": "<b>"}])
    firnline.merge(root, firnline.MergeOptions(full=True))
    firnline.delete(root, "page = '<b>'")
    found = firnline.history(root)
    assert isinstance(found, list)
    assert [header.seq for header in found] == [2, 1]
    assert all(len(repr(header)) <= LONGEST for header in found)
    assert repr(found[1]).startswith("<Transaction 1: op merge, at 20")
    assert ", parts_in 2, parts_out 1, rows_in 4, rows_out 4, " in repr(found[1])
    said = cells(found[0])
    assert (said["op"], said["rows_deleted"], said["by"]) == ("delete", "1", getuser())
    html = Texts(found._repr_html_()).texts  # type: ignore[attr-defined]
    assert {"Transaction 1", "Transaction 2", "op", "merge", "delete", "rows_deleted"} <= {*html}
    assert found[1] == firnline.history(root)[1]
