"""A client of log version 1 gives a column another type, and the command line gets out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import find_table
from firnline.table import Table, open_table
from firnline.types.arrow import from_arrow
from tests.support.cli import Outcome, content_of, program, settings_file
from tests.support.conflicts import values
from tests.support.histories import parquet_bytes
from tests.support.v1_client import V1Client
from tests.support.world import make_world

Firnline = Callable[..., Outcome]


def opened(settings: Path) -> Table:
    return open_table(find_table("t", settings))


def v1_client(settings: Path) -> V1Client:
    """The client on a copy of the table's objects; what it writes is put back by ``store``."""
    world = make_world()
    table, folder = opened(settings), settings.parent
    world.clock.now = table.clock.now_ms() + 1
    for path in sorted((folder / "t").rglob("*")):
        if path.is_file():
            world.store.objects[str(path.relative_to(folder))] = (path.read_bytes(), 0)
    return V1Client(world, host="old-job")


def store(client: V1Client, settings: Path) -> None:
    for key, (data, _) in client.world.store.objects.items():
        path = settings.parent / key
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(data)


def append(settings: Path, *texts: str) -> None:
    """A part with texts, and a log file as the client writes it."""
    client = v1_client(settings)
    world, t = client.world, client.world.clock.now
    rows = pa.table({"id": [90 + n for n in range(len(texts))], "v": texts})
    key = world.table.paths.data_part("d=1", world.ids.uuid7(t))
    data = parquet_bytes(rows)
    world.store.objects[key] = (data, t)
    marker = {"p": key, "b": len(data), "t": t}
    client._write(f"{t}_{client.host}.jsonl", from_arrow(rows.schema), [], [marker])
    store(client, settings)


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = settings_file(tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t', sort_by: [v]}}}}")
    appender = Appender(opened(path))
    for n in range(4):
        appender.append(pa.table({"id": [n], "v": [n]}), partition="d=1")
    return path


def test_a_conflict_is_seen_understood_and_mended_by_the_command_line(
    firnline: Firnline, settings: Path
) -> None:
    append(settings, "7", "08")
    given = ("--settings", settings)
    refused = program("merge", "t", *given)
    assert refused.code == 1
    fix = f"`firnline schema fix t --settings {settings} --column v --type BIGINT`"
    assert fix in refused.sentence
    shown = firnline("schema", "show", "t", *given)
    assert (shown.code, "old-job" in shown.out) == (0, True)
    before = content_of(settings.parent / "t")
    asked = ("schema", "fix", "t", "--column", "v", "--type", "BIGINT", *given)
    assert "looked at would be rewritten" in firnline(*asked, "--dry-run").out
    assert content_of(settings.parent / "t") == before
    done = firnline(*asked, "--yes")
    assert (done.code, done.err) == (0, "")
    assert values(opened(settings)) == [0, 1, 2, 3, 7, 8]
    merged = firnline("merge", "t", *given)
    assert "5 parts → 1" in merged.out
    assert values(opened(settings)) == [0, 1, 2, 3, 7, 8]
    (part,) = v1_client(settings).live()
    read = pq.read_table(settings.parent / part, partitioning=None)
    assert read.column("v").to_pylist() == [0, 1, 2, 3, 7, 8]
    checked = firnline("verify", "t", "--deep", *given)
    assert (checked.code, "found         nothing" in checked.out) == (0, True)


def test_the_client_goes_on_beside_it_and_a_second_mistake_is_mended_too(
    firnline: Firnline, settings: Path
) -> None:
    asked = ("schema", "fix", "t", "--column", "v", "--rename", "v_text", "--yes")
    given = ("--settings", settings)
    append(settings, "n/a")
    assert firnline(*asked, *given).code == 0
    client = v1_client(settings)
    client.world.clock.advance(5)
    assert client.merge("d=1") is not None
    # It made no real part: what counts is that its log file is understood.
    line = client._read(client.log_files()[-1])[0]
    assert line == {"id": "BIGINT", "v": "BIGINT", "v_text": "VARCHAR"}
    append(settings, "later")
    done = firnline(*asked, *given)
    assert done.code == 0, done.err
    assert values(opened(settings), "v_text")[-2:] == ["n/a", "later"]
