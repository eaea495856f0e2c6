"""Threads that read one open part at the same time each get the bytes that they ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.read.files import WHOLE, PartFile, PartFiles
from firnline.read.task import ReadPart
from tests.support.world import make_world

DATA = np.random.default_rng(1).bytes(2 * WHOLE)


@pytest.fixture(params=[len(DATA), 1_000], ids=["in ranges", "at once"])
def part(request: pytest.FixtureRequest) -> PartFile:
    """An open part, larger or smaller than what is fetched at once."""
    world = make_world()
    world.store.put_new("p.parquet", DATA[: request.param])
    files = PartFiles(keep_failure=False)
    stored = ReadPart(key="p.parquet", bytes=request.param, place=0, partition=0)
    return files.open(files.url(files.add(world.store), stored))


def test_a_part_is_read_from_where_its_reader_has_sought(part: PartFile) -> None:
    assert part.read(10) == DATA[:10]
    assert (part.tell(), part.seek(5, 1), part.read(10)) == (10, 15, DATA[15:25])
    assert part.seek(-7, 2) == part.size - 7
    assert (part.read(), part.read()) == (DATA[part.size - 7 : part.size], b"")


def test_each_thread_reads_at_the_place_that_it_has_sought(part: PartFile) -> None:
    """DuckDB reads row groups ahead in threads that share one open file."""
    sought = threading.Barrier(8)

    def excerpt(start: int) -> bytes:
        part.seek(start)
        sought.wait(60)  # all others have sought, too
        return part.read(50) + part.read(50)

    starts = range(0, 800, 100)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(excerpt, starts)) == [DATA[at : at + 100] for at in starts]


def test_a_thread_that_has_not_sought_is_refused(part: PartFile) -> None:
    part.seek(9)
    with ThreadPoolExecutor(1) as other, pytest.raises(OSError, match="seek"):
        other.submit(part.read, 5).result()


@contextmanager
def slow_between_seek_and_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Other threads have their turn after each seek, as on a busy machine; yields who sought."""
    seek, sought = PartFile.seek, []

    def slowly(part: PartFile, offset: int, whence: int = 0) -> int:
        place = seek(part, offset, whence)
        sought.append(threading.get_ident())
        time.sleep(0.002)
        return place

    monkeypatch.setattr(PartFile, "seek", slowly)
    yield sought


def test_a_scan_gives_every_row_however_its_threads_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world(merge={"row_group_rows": 4_000}, sort_by=[])
    rng = np.random.default_rng(3)
    ids = rng.permutation(40_000)
    noise = {f"c{n}": rng.integers(0, 2**40, len(ids)) for n in range(4)}
    Appender(world.table).append(pa.table({"id": ids, **noise}))
    with slow_between_seek_and_read(monkeypatch) as sought:
        for wanted in (int(ids[0]), 17, int(ids[-1])):
            assert firnline.scan(world.table, where=f"id = {wanted}").count() == 1
            assert firnline.scan(world.table, where=f"id = {wanted}").to_arrow().num_rows == 1
    assert len(set(sought)) > 1, "one thread read it all: this shows nothing"
