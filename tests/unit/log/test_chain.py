"""Digests of transactions: what they cover, and what a relocation leaves as it is."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import FirnlineError, LogCorruptError
from firnline.log import chain, codec, relocation, txn_file
from firnline.log.records import Delete, LogContent, LogTombstone, Marker, TxnMark
from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.paths import TablePaths
from tests.support.effort import examples

TXN = "00000000-0001-7000-8000-000000000001"
PREFIXES = ("t", "deep/er/t", "_data", 'with "quotes"/ü', "")


def transaction(paths: TablePaths, rows: int = 3, why: str = "") -> bytes:
    content = LogContent(
        t=20,
        schema={"v": "INTEGER"},
        markers=[
            Marker(f"{paths.data_dir}day=1/a.parquet", 10, 20, n=rows),
            Marker(f"{paths.data_dir}_data/b.parquet", 10, 20, tmb=20),
        ],
        tombstones=[LogTombstone(f"{paths.log_dir}0000000000010_a-{TXN}.jsonl", 20)],
        deletes=[Delete("d", 1, 20, msgspec.Raw(b'{"op":"is_null","column":"v"}'))],
        x=TxnMark(2, TXN, "merge", 5, (1,)),
    )
    log = paths.txn_log(20, 2, TXN)
    header = TxnHeader(seq=2, txn=TXN, op="merge", base=1, t=20, log=log, why=why)
    made = chain.link(header, codec.encode(content), content.x, "b" * 64, paths)
    return txn_file.encode(made.header, made.log_file)


def link(data: bytes, paths: TablePaths) -> chain.Link:
    return link_of(paths.txn(2), data, paths)


def link_of(key: str, data: bytes, paths: TablePaths) -> chain.Link:
    header, log_file = txn_file.decode(key, data, paths)
    mark = codec.decode(header.log, log_file, paths).x
    return chain.link_of(data, header, log_file, mark, paths)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_transaction_states_the_digests_that_its_bytes_give(prefix: str) -> None:
    paths = TablePaths(prefix)
    found = link(transaction(paths), paths)
    assert found.mark == found.digest
    assert found.content == found.content_now
    assert found.before == "b" * 64


@pytest.mark.parametrize("old", PREFIXES)
@pytest.mark.parametrize("new", PREFIXES)
def test_a_relocation_changes_no_digest(old: str, new: str) -> None:
    before, after = TablePaths(old), TablePaths(new)
    data = transaction(before)
    moved = relocation.move_txn(after.txn(2), data, before, after)
    assert link(moved, after) == link(data, before)


def test_a_table_at_another_place_with_the_same_history_has_the_same_digests() -> None:
    one, other = (link(transaction(TablePaths(p)), TablePaths(p)) for p in ("t", "else/where"))
    assert one == other


@pytest.mark.long
@given(st.data())
@examples(200, 5_000)
def test_every_changed_byte_is_found_even_if_the_checksums_are_made_right_again(
    data: st.DataObject,
) -> None:
    paths = TablePaths("t")
    whole = transaction(paths)
    at = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    forged = resealed(whole[:at] + bytes([value]) + whole[at + 1 :])
    try:
        txn_file.decode(paths.txn(2), forged, paths)
        header = txn_file.decode_header(paths.txn(2), forged, paths)
        assert header is not None
        found = link(forged, paths)
    except (FirnlineError, ValueError):
        return  # it does not read, which is found anyway
    same = header == txn_file.decode_header(paths.txn(2), whole, paths)
    if found.content == found.content_now and found.mark == found.digest and same:
        assert found == link(whole, paths)
        assert forged == whole or whitespace_only(forged, whole)


def whitespace_only(one: bytes, other: bytes) -> bool:
    """JSON that says the same, and a checksum line, which nobody has to believe."""
    lines = [each.split(b"\n") for each in (one, other)]
    changed = [i for i, (a, b) in enumerate(zip(*lines, strict=True)) if a != b]
    return all(lines[1][i].startswith(b'{"sum"') for i in changed)


def resealed(data: bytes) -> bytes:
    """The same with checksums that fit, as far as the lines are there."""
    try:
        head, _, log_file = data.split(b"\n", 2)
        first, schema, _, tail = log_file.split(b"\n", 3)
    except ValueError:
        return data
    return codec.seal(head, codec.seal(first + b"\n" + schema, tail))


def test_who_and_why_are_part_of_the_digest() -> None:
    paths = TablePaths("t")
    first, other = (link(transaction(paths, why=why), paths) for why in ("", "because"))
    assert first.digest != other.digest
    assert first.content == other.content


def test_the_digest_of_a_header_is_that_of_its_line_with_the_name_of_the_log_file() -> None:
    """As docs/format.md defines it, for whoever checks it with other tools."""
    import hashlib

    line = b'{"v":1,"seq":2,"log":"t/_log/0000000000020_m_x.jsonl","op":"merge"}'
    short = b'{"v":1,"seq":2,"log":"0000000000020_m_x.jsonl","op":"merge"}'
    assert chain.header_digest("k", line) == hashlib.sha256(short).hexdigest()


def test_the_digest_of_a_log_file_is_that_of_its_lines_without_checksum_and_place() -> None:
    import hashlib

    paths = TablePaths("a/t")
    data = (
        b'{"v":1,"t":20,"sch":1,"ext":2,"f":3,"x":{"seq":2,"txn":"i","op":"m","purged":0,'
        b'"digest":"00"}}\n{"v":"INTEGER"}\n{"sum":{"crc32":1}}\n'
        b'{"p":"a/t/_data/b.parquet","b":1,"t":20}'
    )
    plain = (
        b'{"v":1,"t":20,"sch":1,"ext":2,"f":3,"x":{"seq":2,"txn":"i","op":"m","purged":0}}\n'
        b'{"v":"INTEGER"}\n{"p":"_data/b.parquet","b":1,"t":20}'
    )
    assert chain.content_digest("k", data, paths) == hashlib.sha256(plain).hexdigest()


def test_a_header_that_does_not_read_is_an_error_that_names_its_object() -> None:
    with pytest.raises(LogCorruptError, match="k line 1"):
        chain.header_digest("k", b'{"seq":1}')
    with pytest.raises(LogCorruptError, match="k line 1"):
        chain.content_digest("k", b"[]\n{}", TablePaths("t"))


def test_a_run_may_have_any_name() -> None:
    paths = TablePaths("t")
    run = RunIdentity(dag_id='"log":"x"', user="ü\n")
    header = TxnHeader(
        seq=1, txn=TXN, op="merge", base=0, t=1, log=paths.txn_log(1, 1, TXN), run=run
    )
    content = LogContent(t=1, schema={}, x=TxnMark(1, TXN, "merge", 0))
    made = chain.link(header, codec.encode(content), content.x, "", paths)
    found = link_of(paths.txn(1), txn_file.encode(made.header, made.log_file), paths)
    assert found.mark == found.digest


LINES = st.lists(
    st.sampled_from(
        [b"", b"x", b'{"p":"t/_data/a"}', b'{"p":"t/_log/a"}', b'{"p":"_data/b"}', b'{"sum":{}}']
    ),
    max_size=9,
)


@pytest.mark.long
@given(LINES, st.integers(1, 40))
@examples(300, 3000)
def test_the_digest_does_not_depend_on_the_pieces_in_which_a_log_file_is_read(
    lines: list[bytes], size: int
) -> None:
    data = b"\n".join([b'{"v":1}', *lines])
    whole = chain.content_digest("k", data, TablePaths("t"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "_PIECE_BYTES", size)
        assert chain.content_digest("k", data, TablePaths("t")) == whole
    assert whole == plain_digest(data)


def plain_digest(data: bytes) -> str:
    """As docs/format.md defines it, for a file of one table `t`, in one piece."""
    import hashlib

    head, _, rest = data.partition(b"\n")
    schema, _, rest = rest.partition(b"\n")
    if rest.startswith(b'{"sum":'):
        rest = rest.partition(b"\n")[2]
    tail = b"\n" + rest
    for folder in (b"_data/", b"_log/"):
        tail = tail.replace(b'\n{"p":"t/' + folder, b'\n{"p":"' + folder)
    return hashlib.sha256(head + b"\n" + schema + tail).hexdigest()


@pytest.mark.long
def test_a_transaction_of_many_parts_takes_few_copies_of_its_log_file() -> None:
    """Two and a piece at once, where lines, texts and digests had taken four."""
    paths = TablePaths("t")
    markers = [Marker(f"t/_data/day=1/{n:040}.parquet", n, 20, n=n) for n in range(100_000)]
    content = LogContent(t=20, schema={}, markers=markers, x=TxnMark(2, TXN, "merge", 5, (1,)))
    header = TxnHeader(seq=2, txn=TXN, op="merge", base=1, t=20, log=paths.txn_log(20, 2, TXN))
    tracemalloc.start()
    try:
        made = chain.link(header, codec.encode(content), content.x, "", paths)
        data = txn_file.encode(made.header, made.log_file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(data) < peak < 2.6 * len(data)
