"""What a checkpoint's object says comes back as it was, or the checkpoint does not read."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import CheckpointError
from firnline.log import checkpoint as checkpoint_encode
from firnline.log import checkpoint as checkpoint_file
from firnline.log.checkpoint import SUM, ZEROS, Checkpoint, CheckpointHead, Covered, Tombstone
from firnline.log.records import Delete, Marker
from firnline.paths import TablePaths

PATHS = TablePaths("t")
KEY = PATHS.checkpoint(3, "0" * 32)
LOG = PATHS.append_log(1, "host")


def parts_of(*partitions: str, each: int = 1) -> list[Marker]:
    return [
        Marker(f"t/_data/{partition}/{number}.parquet", b=number + 1, t=7, n=number)
        for partition in partitions
        for number in range(each)
    ]


def encoded(*parts: Marker, **head: Any) -> bytes:
    said = {"seq": 3, "parts": len(parts), "covered": [], "schemas": [], **head}
    return checkpoint_encode.encode(CheckpointHead(**said), parts, PATHS)


def decoded(*parts: Marker, **head: Any) -> Checkpoint:
    return checkpoint_file.decode(KEY, encoded(*parts, **head), PATHS)


def refused(data: bytes) -> str:
    with pytest.raises(CheckpointError, match=r"cannot be read: .*; delete it") as caught:
        checkpoint_file.decode(KEY, data, PATHS)
    return caught.value.message


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 100])
def test_a_partition_may_lie_in_several_row_groups(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_encode, "GROUP_ROWS", rows)
    parts = parts_of("d=1", "d=2", "d=3", each=3)
    read = decoded(*parts)
    assert (read.columns.partitions, read.columns.starts) == (["d=1", "d=2", "d=3"], [0, 3, 6, 9])
    held = read.with_newer([])
    assert {path: held[path] for path in held} == {part.p: part for part in parts}
    assert list(held.values()) == parts


def test_a_state_without_parts_has_a_checkpoint_too() -> None:
    read = decoded(stones=[Tombstone(LOG, 5, ours=True)])
    assert len(read.with_newer([])) == 0
    assert (read.columns.partitions, read.columns.starts) == ([], [0])
    assert read.folded == {LOG}


# --- what is said besides -------------------------------------------------------------------------


def test_only_what_a_transaction_has_folded_needs_no_reading() -> None:
    theirs = PATHS.append_log(2, "host")
    read = decoded(stones=[Tombstone(LOG, 5, ours=True), Tombstone(theirs, 6, ours=False)])
    assert read.folded == {LOG}
    assert {(s.p, s.t) for s in read.content().tombstones} == {(LOG, 5), (theirs, 6)}


@pytest.mark.long
def test_it_speaks_of_the_deletes_and_parts_that_it_holds_and_of_no_other() -> None:
    record = Delete(id="one", seq=1, t=1, where=msgspec.Raw(b"{}"))
    (part,) = parts_of("d=1")
    read = decoded(part, deletes=[record])
    assert read.speaks_of({"one", "two"}, [])
    assert read.speaks_of((), ["t/_data/d=9/0.parquet", part.p])
    assert not read.speaks_of({"two"}, ["t/_data/d=9/0.parquet", "t/_data/d=1/1.parquet"])


# --- what does not read ---------------------------------------------------------------------------


def test_no_bit_of_it_changes_unseen() -> None:
    data = encoded(*parts_of("d=1", "d=2"), covered=[Covered(LOG, 0)], schemas=[{"v": "INTEGER"}])
    assert checkpoint_file.decode(KEY, data, PATHS).covered == {LOG}
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        assert "its checksum does not match" in refused(bytes(changed))


@pytest.mark.parametrize("line", [1, 2])
def test_a_log_file_without_a_schema_line_is_refused_before_anybody_asks_for_it(line: int) -> None:
    said = {"covered": [Covered(LOG, line)], "schemas": [{"v": "INTEGER"}]}
    assert "do not match" in refused(encoded(**said))


@pytest.mark.parametrize("parts", [0, 2])
def test_so_is_another_number_of_parts_than_it_states(parts: int) -> None:
    assert "do not match" in refused(encoded(*parts_of("d=1"), parts=parts))


def test_a_parquet_file_that_says_nothing_of_itself_is_none() -> None:
    # Its only column looks like a checksum, and it fits.
    column = pa.table({"partition": [(SUM + ZEROS).decode()]})
    sink = pa.BufferOutputStream()
    pq.write_table(
        column,
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    data = sink.getvalue().to_pybytes()
    assert pq.ParquetFile(pa.py_buffer(data)).metadata.metadata is None
    assert "checksum" not in refused(checkpoint_encode._sealed(data))
