"""Hazards that depend on how a store lists, names and answers: in a folder and on S3.

(docs/hazards.md; the others are in tests/unit/hazards)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.append import Appender
from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup import CleanupOptions, run_cleanup
from firnline.operations.delete import DeleteOptions, run_delete
from firnline.operations.drop import DropOptions, list_partitions, run_drop
from firnline.operations.merge import MergeOptions, MergeReport, run_merge
from firnline.operations.rewrite import RewriteOptions, run_rewrite
from firnline.operations.sweep import SweepOptions, run_sweep
from firnline.operations.verify import VerifyOptions, run_verify
from firnline.settings import TableSettings
from firnline.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from firnline_dev.s3server import S3Server, StoreRoot
from tests.store.faultproxy import FaultProxy, Request, whole_answer
from tests.support.beside import Beside
from tests.support.reading import part_rows, stored_ids, visible_ids
from tests.support.world import FaultyStore, SetClock

RUN = RunIdentity(run_id="r")
DAY = 86_400_000


def opened(root: StoreRoot, name: str = "t", **settings: Any) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    given = {"merge": {"min_inputs": 2}, "partition_by": ["day"], "sort_by": ["id"], **settings}
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/{name}", **given})
    return open_table(declared, access)


def rows_from(first: int, count: int = 4) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "day": [("mo", "tu")[i % 2] for i in ids]})


def filled(table: Table, appends: int, first: int = 0) -> Table:
    appender = Appender(table)
    for number in range(appends):
        appender.append(rows_from(first + 4 * number))
    return table


def engine(table: Table, scratch: Path) -> LocalEngine:
    def store() -> Any:
        own = open_table(table.settings, table.access).store
        return Reads(own, read=table.store.read) if isinstance(table.store, Reads) else own

    return LocalEngine(store, scratch, SystemIds(), SystemClock())


def merge(table: Table, scratch: Path) -> MergeReport:
    return run_merge(table, lambda: engine(table, scratch), MergeOptions(), RUN)


def later(table: Table, days: int) -> Table:
    """The same table, so many days later."""
    return replace(table, clock=SetClock(now=SystemClock().now_ms() + days * DAY))


def content(table: Table) -> dict[str, bytes]:
    """Everything below the table's root."""
    return {
        meta.key: table.store.get(meta.key) for meta in table.store.list(table.paths.prefix + "/")
    }


BESIDE = ("t2", "t-old", "t_log", "t/inner", "t/_data/inner", "t/_data/day=mo/inner")
"""Roots of other tables: with a common beginning, under the table, and where its own parts lie."""


def test_hazard_15_data_kept_under_or_beside_another_tables_prefix_is_not_mixed_in(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Neither read, nor merged, dropped, cleaned or swept away by the other table."""
    table = filled(opened(store_root), 4)
    others = {name: filled(opened(store_root, name), 2, first=1_000) for name in BESIDE}
    before = {name: content(other) for name, other in others.items()}
    strangers = sum(len(objects) for objects in before.values())
    assert strangers > 4 * len(BESIDE)

    assert visible_ids(table) == Counter(range(16))
    assert {p.partition for p in list_partitions(table)} == {"day=mo", "day=tu"}
    assert merge(table, tmp_path).counts.rows_in == 16
    run_drop(table, DropOptions(partitions=("day=mo",)), RUN)
    options = DeleteOptions(where="id < 9", mode="eager")
    run_delete(table, lambda: engine(table, tmp_path), options, RUN)
    assert visible_ids(table) == Counter([9, 11, 13, 15])
    assert run_cleanup(later(table, 2), CleanupOptions(), RUN).parts
    report = run_sweep(later(table, 5), SweepOptions(), RUN)
    assert report.deleted == 0
    under_data = sum(len(before[name]) for name in BESIDE if name.startswith("t/_data"))
    assert sum(report.left.values()) == under_data, "somebody has to approve each of their keys"
    for name, other in others.items():
        assert {k: v for k, v in content(other).items() if k in before[name]} == before[name]
        assert visible_ids(other) == Counter(range(1_000, 1_008))


def test_hazard_18_a_reader_with_a_listing_from_just_before_clean_up_gets_all_its_files(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Log files that went between its listing and its requests, and every part it was told of."""
    for everything in (True, False):
        for when in count():
            table = filled(opened(store_root, f"t-{everything}-{when}"), 2)
            merge(table, tmp_path)
            filled(table, 1, first=8)
            reports = []

            def clean_up(table: Table = table, reports: list[Any] = reports) -> None:
                reports.append(run_cleanup(later(table, 2), CleanupOptions(), RUN))

            store = Beside(table.store, when=when, act=clean_up)
            state = read_snapshot(store, table.paths, everything=everything)
            found = Counter(row["id"] for key in state.live for row in part_rows(table, key))
            assert found == Counter(range(12))
            if not store.met:
                assert when >= 2, "before the listing, and before each look behind it"
                break
            assert (reports[0].parts, reports[0].log_files) == (4, 2)


def test_hazard_18_a_reader_from_before_the_replacement_keeps_its_files_for_the_grace(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """A clean-up right after a merge deletes nothing that was live when the reader listed."""
    table = filled(opened(store_root), 3)
    state = read_snapshot(table.store, table.paths)
    merge(table, tmp_path)
    run_rewrite(table, lambda: engine(table, tmp_path), RewriteOptions(where="id > 1"), RUN)
    assert run_cleanup(table, CleanupOptions(), RUN).parts == 0
    found = Counter(row["id"] for key in state.live for row in part_rows(table, key))
    assert found == Counter(range(12))
    assert run_cleanup(later(table, 2), CleanupOptions(), RUN).parts > len(state.live)


@dataclass
class Reads(FaultyStore):
    """Notes every key that is read."""

    read: list[str] = field(default_factory=list)

    def get_many(self, keys: Any) -> Iterator[tuple[str, bytes | None]]:
        self.read += keys
        yield from super().get_many(keys)

    def get_heads(self, keys: Any, length: int) -> Iterator[tuple[str, bytes | None]]:
        self.read += keys
        yield from super().get_heads(keys, length)

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)

    def get_file(self, key: str, path: Path) -> int:
        self.read.append(key)
        return super().get_file(key, path)


def spent(table: Table) -> int:
    counted = table.store.counters.as_dict()
    return sum(counted[kind] for kind in ("get", "put", "list", "delete", "head"))


def reading(table: Table, run: Callable[[Table], object]) -> tuple[int, Counter[str]]:
    """Requests of a run, and how often it read each log file and each part."""
    store = Reads(table.store)
    before = spent(table)
    run(replace(table, store=store))
    return spent(table) - before, Counter(key for key in store.read if "/_probe/" not in key)


def test_hazard_19_requests_stay_linear_and_no_file_is_read_twice(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Of a merge and of a clean-up, for twice and four times as many appends."""
    merging, cleaning = [], []
    for appends in (5, 10, 20):
        table = filled(opened(store_root, f"t{appends}"), appends)
        requests, read = reading(table, lambda table: merge(table, tmp_path))
        assert set(read.values()) == {1}
        assert len(read) == 3 * appends, "the log files, and two parts of each"
        merging.append(requests)
        requests, read = reading(
            later(table, 2), lambda table: run_cleanup(table, CleanupOptions(), RUN)
        )
        assert not any("/_data/" in key for key in read)
        # One base before the deletion and one after it: what is deleted is read once.
        assert sum(read.values()) == appends + 1 + 1
        cleaning.append(requests)
    for found in (merging, cleaning):
        assert found[2] - found[1] == 2 * (found[1] - found[0])
    assert merging[1] - merging[0] == 3 * 5


def test_hazard_19_a_run_with_nothing_to_do_writes_nothing(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Nor deletes; not once and not ever, however much later it runs."""
    table = filled(opened(store_root), 3)
    merge(table, tmp_path)
    for days in (2, 4, 6):
        run_cleanup(later(table, days), CleanupOptions(), RUN)
    before = content(table)
    counted = table.store.counters.as_dict()
    for days in (6, 8, 400):
        at = later(table, days)
        report = run_cleanup(at, CleanupOptions(), RUN)
        assert (report.parts, report.log_files, report.transactions) == (0, 0, ())
        assert merge(at, tmp_path).groups == 0
        assert run_sweep(at, SweepOptions(), RUN).orphans == 0
    after = table.store.counters.as_dict()
    assert content(table) == before
    assert [after[kind] - counted[kind] for kind in ("put", "delete")] == [0, 0]


NAMES = ("a_m_b", "m_x", "_m_", "my_m_host_m_", "h.*[x]+(y)$", "it's;--", "ünïcode %25 x")


def test_hazard_20_any_host_name_and_any_prefix_will_do(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """``_m_`` in a host's name, and what regular expressions, globs, SQL or URLs would read."""
    prefix = """we.ird+(t)*[a-z]/50%25 'x' "y"; drop table--$1/{1..2}\\d"""
    table = filled(opened(store_root, prefix), 3)
    marker = """{"p":"%s","b":%d,"t":%d}"""
    schema = '{"id":"BIGINT","day":"VARCHAR"}'
    for number, host in enumerate(NAMES):
        source = filled(opened(store_root, f"source-{number}"), 1, first=100 + 4 * number)
        for key, data in content(source).items():
            if "/_data/" not in key:
                continue
            t = SystemClock().now_ms()
            new = table.paths.data_dir + key.partition("/_data/")[2]
            table.store.put_new(new, data)
            line = marker % (new.replace("\\", "\\\\").replace('"', '\\"'), len(data), t)
            log = f'{{"v":"1","t":{t},"sch":1,"f":2}}\n{schema}\n{line}'
            name = f"{t}_{host}{key[-12:-8]}.jsonl"
            table.store.put_new(table.paths.log_dir + name, log.encode())
    expected = Counter([*range(12), *range(100, 100 + 4 * len(NAMES))])
    assert visible_ids(table) == expected
    run_delete(table, partial(engine, table, tmp_path), DeleteOptions(where="id = 3"), RUN)
    del expected[3]
    assert merge(table, tmp_path).counts.parts_in > len(NAMES)
    assert visible_ids(table) == stored_ids(table) == expected
    run_rewrite(table, partial(engine, table, tmp_path), RewriteOptions(where="id <> 5"), RUN)
    del expected[5]
    run_drop(table, DropOptions(partitions=("day=mo",)), RUN)
    expected = Counter(i for i in expected if i % 2)
    assert run_verify(table, VerifyOptions(), None).healthy
    assert run_cleanup(later(table, 2), CleanupOptions(), RUN).parts
    assert run_sweep(later(table, 5), SweepOptions(), RUN).orphans == 0
    assert visible_ids(table) == expected
    assert all(meta.key in read_snapshot(table.store, table.paths).live for meta in parts(table))


def parts(table: Table) -> list[Any]:
    return list(table.store.list(table.paths.data_dir))


def test_hazard_20_a_table_without_objects_is_an_empty_page_and_no_error(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    table = opened(store_root)
    assert dict(read_snapshot(table.store, table.paths).live) == {}
    assert merge(table, tmp_path).groups == 0
    assert run_cleanup(table, CleanupOptions(), RUN).parts == 0
    with pytest.raises(UsageError, match="no log file"):
        run_sweep(table, SweepOptions(), RUN)
    assert content(table) == {}


EMPTY_PAGE = (
    b"<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
    b"<Name>b</Name><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>"
    b"<NextContinuationToken>go-on</NextContinuationToken></ListBucketResult>"
)


def test_hazard_20_an_empty_page_with_more_behind_it_is_not_the_end(
    s3_server: S3Server, s3_root: StoreRoot, tmp_path: Path
) -> None:
    """Stores may answer so, where many keys were deleted: the server's own answer comes after."""
    filled(opened(s3_root), 3)
    with FaultProxy(s3_server.port) as proxy:
        held: list[bytes] = []

        def page(request: Request) -> bytes:
            if "continuation-token=" in request.path:
                return held.pop()
            head, body = proxy._forward(request)
            held.append(head + body)
            return whole_answer(200, EMPTY_PAGE)

        proxy.add("answer", lambda r: "list-type=2" in r.path, times=1_000, answer=page)
        table = opened(StoreRoot("s3", s3_root.url, s3_root.env | _endpoint(proxy.endpoint)))
        assert visible_ids(table) == Counter(range(12))
        merge(table, tmp_path)
        assert run_cleanup(later(table, 2), CleanupOptions(), RUN).parts == 6
        assert run_sweep(later(table, 5), SweepOptions(), RUN).orphans == 0
        assert visible_ids(table) == Counter(range(12))
        assert sum("continuation-token=" in r.path for r in proxy.seen) > 5
        assert not held
    assert visible_ids(opened(s3_root)) == Counter(range(12))


def _endpoint(url: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_S3": url}
