"""Hazards of names, and of how a store answers, in a folder and on S3 (docs/guarantees.md)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    RewriteOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.store.faultproxy import FaultProxy, Request, whole_answer
from tests.support.on_store import RUN, content, engine, filled, later, merge, opened
from tests.support.reading import stored_ids, visible_ids
from tools.s3server import S3Server, StoreRoot

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
    run_delete(Work(table, RUN, partial(engine, table, tmp_path)), DeleteOptions(where="id = 3"))
    del expected[3]
    assert merge(table, tmp_path).counts.parts_in > len(NAMES)
    assert visible_ids(table) == stored_ids(table) == expected
    run_rewrite(Work(table, RUN, partial(engine, table, tmp_path)), RewriteOptions(where="id <> 5"))
    del expected[5]
    run_drop(Work(table, RUN), DropOptions(partitions=("day=mo",)))
    expected = Counter(i for i in expected if i % 2)
    assert run_verify(Work(table), VerifyOptions()).healthy
    assert run_cleanup(Work(later(table, 2), RUN), CleanupOptions()).parts
    assert run_sweep(Work(later(table, 5), RUN), SweepOptions()).orphans == 0
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
    assert run_cleanup(Work(table, RUN), CleanupOptions()).parts == 0
    with pytest.raises(UsageError, match="no log file"):
        run_sweep(Work(table, RUN), SweepOptions())
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
        assert run_cleanup(Work(later(table, 2), RUN), CleanupOptions()).parts == 6
        assert run_sweep(Work(later(table, 5), RUN), SweepOptions()).orphans == 0
        assert visible_ids(table) == Counter(range(12))
        assert sum("continuation-token=" in r.path for r in proxy.seen) > 5
        assert not held
    assert visible_ids(opened(s3_root)) == Counter(range(12))


def _endpoint(url: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_S3": url}
