"""The verifier that needs no firnline: what it finds in a copy of a table, and what it cannot."""

from __future__ import annotations

import ast
import base64
import datetime
import hashlib
import json
import re
import shutil
import subprocess
import sys
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline import verify_table
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.state.history import newest_head
from firnline.state.witness import CertificateWitness, Witness
from firnline.types.rowhash import digest_of
from tests.support.effort import examples
from tests.support.histories import append, clean_up, delete_lazily, drop, filled, merge
from tests.support.world import World, make_world

PROGRAM = Path(verify_table.__file__)
RUN = RunIdentity(run_id="r", user="ana")
DAY = 86_400_000
ERASED, ERASED_LATER = (4, 31), (41, 42, 43)
Said = tuple[int, list[str]]


@dataclass(frozen=True)
class Copy:
    """A copy of a table's folder, and what was noted of the table elsewhere."""

    folder: Path
    witness: Path
    certificate: str
    """Id of the complete one."""
    waiting: str
    """Id of the other one."""

    def path(self, pattern: str, at: int = -1) -> Path:
        """One of the objects, the newest by its name unless said otherwise."""
        return sorted(self.folder.glob(pattern))[at]

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


def erase(world: World, scratch: Path, *keys: Any) -> str:
    world.clock.advance(10)
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    options = EraseOptions(columns=("id",), keys=tuple((key,) for key in keys))
    done = run_erase(Work(world.table, RUN, lambda: engine), options).certificate
    assert done is not None
    return done


def store_in(folder: Path, world: World) -> None:
    """All objects of a table as files."""
    for key, (data, _) in world.store.objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Merges, deletes, two erases of which one is complete, and a history that was shortened."""
    scratch = tmp_path_factory.mktemp("scratch")
    world = filled(3, merge={"min_inputs": 2})
    merge(world, scratch)
    for _ in range(110):
        drop(world, "day=9")
    delete_lazily(world, 2)
    append(world, 30)
    certificate = erase(world, scratch, *ERASED)
    append(world, 40)
    clean_up(world)
    world.clock.advance(9 * DAY)
    complete = complete_certificate(world.table, certificate, RUN)
    assert complete.status == "complete"
    append(world, 50, by=Appender(world.table, writer="billing"))
    append(world, 60)
    merge(world, scratch)
    clean_up(world)
    append(world, 80)
    waiting = erase(world, scratch, *ERASED_LATER)
    Appender(world.table).append(pa.table({"id": range(90, 106), "day": range(10, 26)}))
    drop(world, "day=9")
    append(world, 110, 2)
    drop(world, "day=9")  # its log file is too small to fold what the one before has written
    append(world, 70)
    head = newest_head(world.table)
    assert head is not None
    kept = tmp_path_factory.mktemp("copy")
    store_in(kept, world)
    witness = kept / "witnesses.txt"
    seen = (
        Witness("t", head.seq, head.digest),
        CertificateWitness("t", certificate, complete.sha256),
    )
    witness.write_text("\n".join(["noted by hand:", *map(str, seen)]))
    return Copy(kept / "t", witness, certificate, waiting)


@pytest.fixture
def copy(original: Copy, tmp_path: Path) -> Copy:
    shutil.copytree(original.folder, tmp_path / "t")
    return replace(original, folder=tmp_path / "t")


@pytest.fixture
def check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """Runs the program in this process: its exit code and its lines."""

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["verify_table.py", *map(str, arguments)])
        code = verify_table.main()
        return code, capsys.readouterr().out.splitlines()

    return run


# --- what it is ----------------------------------------------------------------------------------


def test_it_has_300_lines_at_most_and_imports_nothing_but_pyarrow() -> None:
    text = PROGRAM.read_text()
    assert len(text.splitlines()) <= 300
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or ".").partition(".")[0])
    assert imported - sys.stdlib_module_names == {"pyarrow"}


ALONE = """
import importlib.util, runpy, sys
sys.path.insert(0, sys.argv[1])
assert not any(map(importlib.util.find_spec, ("firnline", "msgspec", "numpy", "duckdb")))
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_whole_table_passes_where_firnline_is_not_installed(
    original: Copy, tmp_path: Path
) -> None:
    (tmp_path / "pyarrow").symlink_to(Path(pa.__file__).parent)
    program = shutil.copy(PROGRAM, tmp_path / "verify_table.py")
    asked: list[str | Path] = [program, original.folder, "--all", "--witness", original.witness]
    alone: list[str | Path] = [sys.executable, "-I", "-S", "-c", ALONE, tmp_path]
    done = subprocess.run([*alone, *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *counts, verdict = done.stdout.splitlines()
    found = {
        what: int(count.replace(",", "")) for count, what in (c.split(None, 1) for c in counts)
    }
    assert verdict == "what was checked holds"
    assert found["transactions"] >= 100
    assert (found["certificates"], found["witnesses"]) == (3, 1)
    assert found["parts read"] == found["live parts"] > 4
    assert found["of these searched for the keys of an erase"] > 0
    assert "of these not checked: the log states no digest" not in found


def test_the_history_of_this_table_was_shortened(original: Copy) -> None:
    # Otherwise these tests would not show that a history which clean-up has shortened passes.
    assert int(original.path("_txn/*", 1).stem) > 1


def test_a_sample_is_smaller_and_depends_on_the_seed_alone(
    original: Copy, check: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note(_: verify_table.Check, name: str, path: Path) -> None:
        read.append(name)

    note.__name__ = "parts_read"
    monkeypatch.setattr(verify_table.Check, "parts_read", note)
    samples = []
    for seed in ("a", "a", "b"):
        code, lines = check(original.folder, "--sample", 3, "--seed", seed)
        assert (code, "        3 parts read" in lines) == (0, True)
        samples.append([*read])
        read.clear()
    assert samples[0] == samples[1] != samples[2]


def test_a_wrong_call_ends_with_2(original: Copy, check: Callable[..., Said]) -> None:
    for asked in (
        ["/nowhere"],
        [original.folder, "--witness", "/nowhere"],
        [original.folder, "--x"],
    ):
        with pytest.raises(SystemExit) as ended:
            check(*asked)
        assert ended.value.code == 2


# --- what was planted ----------------------------------------------------------------------------


def sealed(lines: Sequence[bytes]) -> bytes:
    """A log file with a checksum that fits."""
    crc = zlib.crc32(b"\n".join(lines[3:]), zlib.crc32(b"\n".join(lines[:2])))
    return b"\n".join([*lines[:2], b'{"sum":{"crc32":%d}}' % crc, *lines[3:]])


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change rows of a part and leave everything else of it as it was."""
    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def append_of(copy: Copy) -> Path:
    """The log file of the newest append, which nothing has folded."""
    return copy.path("_log/*_firnline-*")


def live_part(copy: Copy) -> Path:
    marker = json.loads(append_of(copy).read_bytes().split(b"\n")[-1])
    return copy.folder.parent / str(marker["p"])


def a_value_is_changed(copy: Copy) -> list[str]:
    path = live_part(copy)
    rewritten(path, lambda rows: rows[0].update(name="other"))
    return [f"{copy.name(path)}: has other rows than the log states"]


def two_values_change_places(copy: Copy) -> list[str]:
    path = live_part(copy)

    def swap(rows: list[dict[str, Any]]) -> None:
        rows[0]["name"], rows[1]["name"] = rows[1]["name"], rows[0]["name"]

    rewritten(path, swap)
    return [f"{copy.name(path)}: has other rows than the log states"]


def a_part_is_removed(copy: Copy) -> list[str]:
    path = live_part(copy)
    path.unlink()
    return [f"{copy.name(path)}: is live, and has 0 bytes instead of"]


def a_part_is_cut(copy: Copy) -> list[str]:
    path = live_part(copy)
    path.write_bytes(path.read_bytes()[:-9])
    return [f"{copy.name(path)}: is live", f"{copy.name(path)}: cannot be read"]


def a_transaction_is_edited(copy: Copy) -> list[str]:
    path = copy.path("_txn/*", -4)
    path.write_bytes(path.read_bytes().replace(b'"run_id":"r"', b'"run_id":"s"', 1))
    return [f"{copy.name(path)}: has another digest or number"]


def a_log_file_within_a_transaction_is_edited(copy: Copy) -> list[str]:
    path = copy.path("_txn/*")
    head, _, data = path.read_bytes().split(b"\n", 2)
    lines = data.split(b"\n")
    inner = sealed([*lines[:-1], lines[-1].replace(b'"n":', b'"n":1', 1)])
    crc = zlib.crc32(inner, zlib.crc32(head))
    path.write_bytes(b"\n".join([head, b'{"sum":{"crc32":%d}}' % crc, inner]))
    return [f"{copy.name(path)}: has another digest or number"]


def a_transaction_is_made_anew_with_its_digests(copy: Copy) -> list[str]:
    """So that only the next one, which states another digest, gives it away."""
    path, later = copy.path("_txn/*", -4), copy.path("_txn/*", -3)
    line, _, data = path.read_bytes().split(b"\n", 2)
    line = line.replace(b'"run_id":"r"', b'"run_id":"s"', 1)
    own = hashlib.sha256(re.sub(rb'"log":"t/_log/', b'"log":"', line)).hexdigest().encode()
    inner = re.sub(rb'"digest":"[0-9a-f]{64}"', b'"digest":"%s"' % own, data, count=1)
    path.write_bytes(b"\n".join([line, b'{"sum":{"crc32":0}}', sealed(inner.split(b"\n"))]))
    seq = int(path.stem)
    return [f"{copy.name(later)}: followed another transaction {seq}"]


def a_transaction_is_removed(copy: Copy) -> list[str]:
    path = copy.path("_txn/*", -4)
    path.unlink()
    return [f"{copy.name(path)}: is missing"]


def a_log_file_is_edited(copy: Copy) -> list[str]:
    path = append_of(copy)
    path.write_bytes(path.read_bytes().replace(b'"n":3', b'"n":4', 1))
    return [f"{copy.name(path)}: has a wrong name or checksum"]


def a_part_is_added_to_a_log_file_by_hand(copy: Copy) -> list[str]:
    path = copy.path("_log/*_m_*")
    lines = path.read_bytes().split(b"\n")
    marker = {"p": "t/_data/day=0/01a229d9-fb47-7000-8000-000000000013.parquet", "b": 1, "t": 1}
    path.write_bytes(sealed([*lines, json.dumps(marker).encode()]))
    return [f"{copy.name(path)}: is not that of transaction"]


def a_part_gets_another_digest_by_a_log_file_of_its_own(copy: Copy) -> list[str]:
    path = append_of(copy)
    other = path.with_name("1999999999999_them-018bcfe5-680a-7000-8000-000000000001.jsonl")
    data = re.sub(rb'"g":"r1:[0-9a-f]{32}"', b'"g":"r1:%s"' % (b"0" * 32), path.read_bytes())
    other.write_bytes(sealed(data.split(b"\n")))
    return [f"{copy.name(other)}: states ['g'] of {copy.name(live_part(copy))}"]


def a_log_file_that_counts_is_removed(copy: Copy) -> list[str]:
    head = json.loads(copy.path("_txn/*").read_bytes().split(b"\n")[2])
    seq = head["x"]["standing"][-1]
    copy.path(f"_log/*_m_{seq:020}-*").unlink()
    return [f"_log/*_m_{seq:020}-*: is missing, and was never folded"]


def the_newest_transaction_is_removed_without_its_log_file(copy: Copy) -> list[str]:
    copy.path("_txn/*").unlink()
    return [f"{copy.name(copy.path('_log/*_m_*'))}: is of"]


def a_certificate_is_edited(copy: Copy) -> list[str]:
    path = copy.path("_erase/*.complete.json")
    path.write_bytes(path.read_bytes().replace(b'"user":"ana"', b'"user":"eve"', 1))
    return [f"{copy.name(path)}: has another digest than it states"]


def with_digest(certificate: dict[str, Any]) -> bytes:
    """A certificate with a digest of itself that fits."""
    plain = {name: value for name, value in certificate.items() if name != "sha256"}
    place = re.compile(rb'"t/(?=_(data|log|txn|ckpt|erase)/)')
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
    digest = hashlib.sha256(place.sub(b'"', text)).hexdigest()
    whole = {**plain, "sha256": digest}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def a_certificate_is_edited_with_its_digest(copy: Copy) -> list[str]:
    path = copy.path("_erase/*.complete.json")
    plain = json.loads(path.read_bytes())
    path.write_bytes(with_digest({**plain, "keys": plain["keys"] + 1}))
    return [f"{copy.name(path)}: is not as its erase was planned"]


def a_certificate_speaks_of_another_history(copy: Copy) -> list[str]:
    path = copy.path("_erase/*.complete.json")
    plain = json.loads(path.read_bytes())
    plain["head"]["digest"] = "0" * 64
    path.write_bytes(with_digest(plain))
    return [f"{copy.name(path)}: speaks of another transaction {plain['head']['seq']}"]


def a_certificate_of_no_erase(copy: Copy) -> list[str]:
    """Of a transaction that is past its retention."""
    plain = json.loads(copy.path("_erase/*.complete.json").read_bytes())
    erase = "018bcfe5-6846-7000-8000-ffffffffffff"
    plain |= {"id": erase, "replaced": {"seq": 2, "t": 5}}
    fields = (verify_table.PLANNED + " clean covers").split()
    plan = {name: plain[name] for name in fields}
    plan["parts"] = [{k: v for k, v in p.items() if k != "gone_ms"} for p in plain["parts"]]
    digest = hashlib.sha256(json.dumps(plan, separators=(",", ":")).encode()).hexdigest()
    plain["link"] |= {"id": erase, "seq": 2, "t": 5, "number": 3, "plan": digest}
    path = copy.folder / f"_erase/{erase}.complete.json"
    path.write_bytes(with_digest(plain))
    return [f"{copy.name(path)}: is not in the chain of erases"]


def a_certificate_is_removed(copy: Copy) -> list[str]:
    for path in copy.folder.glob(f"_erase/{copy.certificate}*"):
        path.unlink()
    return [f"_erase/{copy.certificate}.json: is missing, of erase 1"]


def a_replaced_part_is_back(copy: Copy) -> list[str]:
    plain = json.loads(copy.path("_erase/*.complete.json").read_bytes())
    path = copy.folder / "_data/day=0" / plain["parts"][0]["key"]
    assert not path.exists()
    shutil.copy(live_part(copy), path)
    return [f"{copy.name(path)}: is there, and certificate {copy.certificate} calls it gone"]


def an_erased_row_is_back(copy: Copy) -> list[str]:
    """In a part that the certificate calls clean."""
    clean = json.loads((copy.folder / f"_erase/{copy.waiting}.json").read_bytes())["clean"]
    for path in copy.folder.glob("_data/*/*.parquet"):
        digest = hashlib.sha256(copy.name(path).removeprefix("_data/").encode()).digest()[:12]
        if base64.b64encode(digest).decode() in clean:
            rewritten(path, lambda rows: rows[0].update(id=ERASED_LATER[0]))
            return [f"{copy.name(path)}: has 1 rows that certificate {copy.waiting} calls erased"]
    raise AssertionError("no part that the erase found clean is left")


PLANTED = [
    a_value_is_changed,
    two_values_change_places,
    a_part_is_removed,
    a_part_is_cut,
    a_transaction_is_edited,
    a_log_file_within_a_transaction_is_edited,
    a_transaction_is_made_anew_with_its_digests,
    a_transaction_is_removed,
    a_log_file_is_edited,
    a_part_is_added_to_a_log_file_by_hand,
    a_part_gets_another_digest_by_a_log_file_of_its_own,
    a_log_file_that_counts_is_removed,
    the_newest_transaction_is_removed_without_its_log_file,
    a_certificate_is_edited,
    a_certificate_is_edited_with_its_digest,
    a_certificate_speaks_of_another_history,
    a_certificate_of_no_erase,
    a_certificate_is_removed,
    a_replaced_part_is_back,
    an_erased_row_is_back,
]


@pytest.mark.long
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_was_planted_is_found_and_named(
    plant: Callable[[Copy], list[str]], copy: Copy, check: Callable[..., Said]
) -> None:
    expected = plant(copy)
    code, lines = check(copy.folder, "--all")
    assert code == 1
    for line in expected:
        assert any(said.startswith(f"WRONG {line}") for said in lines), (line, lines)


@pytest.mark.long
def test_a_history_that_was_cut_off_is_found_by_a_witness_only(
    copy: Copy, check: Callable[..., Said]
) -> None:
    path = copy.path("_txn/*")
    copy.path(f"_log/*_m_{path.stem}-*").unlink()
    path.unlink()
    assert check(copy.folder)[0] == 0
    code, lines = check(copy.folder, "--witness", copy.witness)
    assert (code, lines[-1]) == (1, f"WRONG {copy.name(path)}: differs from a witness")


@pytest.mark.long
def test_a_complete_certificate_that_was_removed_is_found_by_a_witness_or_by_a_copy(
    original: Copy, copy: Copy, check: Callable[..., Said]
) -> None:
    # What is left is a certificate that waits, which is valid.
    path = copy.path("_erase/*.complete.json")
    path.unlink()
    assert check(copy.folder)[0] == 0
    code, lines = check(copy.folder, "--witness", copy.witness)
    assert (code, lines[-1]) == (1, f"WRONG {copy.name(path)}: differs from a witness")
    kept = original.path("_erase/*.complete.json")
    code, lines = check(copy.folder, "--certificate", kept)
    assert (code, lines[-1]) == (1, f"WRONG {kept}: is not what {copy.name(path)} is")
    assert check(original.folder, "--certificate", kept)[0] == 0


@pytest.mark.long
def test_an_append_that_nothing_has_folded_is_in_no_chain(
    copy: Copy, check: Callable[..., Said]
) -> None:
    # The limit that the program's own text states; the parts that are left are counted.
    append_of(copy).unlink()
    code, lines = check(copy.folder)
    assert code == 0
    assert "        2 objects that no log file names" in lines


# --- types of keys -------------------------------------------------------------------------------

MOMENT = datetime.datetime(2013, 1, 31, 12, 30, 1, 250_000, datetime.UTC)
KEYS = [
    (pa.uuid(), *(uuid.UUID(int=n).bytes for n in (1, 2**127, 3))),
    (pa.uint64(), 2**64 - 1, 2**63, 5),
    (pa.int64(), -(2**63), 2**63 - 1, 5),
    (pa.int8(), -128, 127, 5),
    (pa.bool_(), True, True, False),
    (pa.string(), "é", "", "17"),
    (pa.dictionary(pa.int32(), pa.string()), "é", "", "17"),
    *(
        (pa.decimal128(*size), *map(Decimal, ("-0.0000000001", "12.5", "7")))
        for size in ((12, 10), (38, 12))
    ),
    (pa.decimal32(5, 2), *map(Decimal, ("-1.5", "0.01", "7"))),
    (pa.date32(), *(datetime.date(*day) for day in ((1970, 1, 1), (9999, 12, 31), (1, 1, 1)))),
    *(
        (pa.timestamp(unit, zone), MOMENT, MOMENT.replace(year=1), MOMENT.replace(year=2020))
        for unit in ("ms", "us")
        for zone in (None, "UTC")
    ),
    (pa.timestamp("s"), *(MOMENT.replace(microsecond=0, year=year) for year in (1, 9999, 2020))),
    (pa.timestamp("ns"), -1, 1_234_567_891, 5),
    (pa.timestamp("ns", "UTC"), -1, 1_234_567_891, 5),
]


def spelled(key: pa.Scalar) -> object:
    """As somebody writes a key of an erase."""
    is_text = pa.types.is_temporal(key.type) or key.type == pa.uuid()
    return (
        str(key.as_py() if key.type == pa.uuid() else key.cast(pa.string()))
        if is_text
        else key.as_py()
    )


@pytest.mark.parametrize("case", KEYS, ids=lambda case: str(case[0]))
def test_rows_of_erased_keys_are_found_whatever_their_type(
    case: tuple[Any, ...], tmp_path: Path, check: Callable[..., Said]
) -> None:
    kind, *given = case
    values, world = pa.array([*given, None], kind), make_world()
    for rows in (values, values.slice(2)):
        world.clock.advance(10)
        Appender(world.table).append(pa.table({"id": rows}))
    drop(world, "day=9")  # from here on the log states that the parts are older than the erase
    certificate = erase(world, tmp_path / "scratch", *map(spelled, values.slice(0, 2)))
    store_in(tmp_path, world)
    code, lines = check(tmp_path / "t", "--all")
    assert (code, lines[-1]) == (0, "what was checked holds")
    assert "        2 of these searched for the keys of an erase" in lines
    for key in (values[0], values[1]):
        for path in (tmp_path / "t/_data").glob("*.parquet"):
            pq.write_table(pa.table({"id": pa.repeat(key, 3)}), path)
        code, lines = check(tmp_path / "t", "--all")
        assert code == 1
        said = f"has 3 rows that certificate {certificate} calls erased"
        assert any(line.endswith(said) for line in lines), lines


def test_keys_of_a_column_that_older_parts_do_not_have_or_spell_otherwise(
    tmp_path: Path, check: Callable[..., Said]
) -> None:
    world = make_world()
    for rows in ({"n": [1]}, {"n": [2], "id": [5]}, {"n": [3], "id": [7]}):
        world.clock.advance(10)
        Appender(world.table).append(pa.table(rows))
    drop(world, "day=9")
    erase(world, tmp_path / "scratch", 7)
    store_in(tmp_path, world)
    code, lines = check(tmp_path / "t", "--all")
    assert (code, lines[-1]) == (0, "what was checked holds")
    parts = (tmp_path / "t/_data").glob("*.parquet")
    path = next(part for part in parts if "id" in pq.read_schema(part).names)
    pq.write_table(pa.table({"n": [2], "ID": [7]}), path)
    assert any("has 1 rows that certificate" in line for line in check(tmp_path / "t", "--all")[1])


# --- digests of rows -----------------------------------------------------------------------------


def computed(rows: pa.Table) -> str:
    lanes = (verify_table.Lane(0), verify_table.Lane(1))
    for batch in rows.to_batches(5):
        for lane in lanes:
            lane.sum += sum(filter(None, lane.words(batch.to_struct_array())))
    first, second = (lane.sum & verify_table.ALL for lane in lanes)
    return f"r1:{first:016x}{second:016x}"


def column(kind: pa.DataType, *values: object) -> pa.Table:
    return pa.table({"Spalte Ä": pa.array([*values, None], kind), "n": range(len(values) + 1)})


_X = pa.struct([("x", pa.int8()), ("Y", pa.string())])
COLUMNS = [
    *(column(kind, 1, 0, 100) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64())),
    column(pa.int64(), -1, -(2**63)),
    column(pa.bool_(), True, False),
    *(column(k, 1.5, -0.0, 0.0, float("nan")) for k in (pa.float16(), pa.float32(), pa.float64())),
    column(pa.date32(), datetime.date(1960, 1, 1), datetime.date(9999, 12, 31)),
    column(pa.date64(), datetime.date(2013, 1, 1)),
    *(column(pa.timestamp(unit), -1, 1_234_567) for unit in ("s", "ms", "us", "ns")),
    column(pa.timestamp("us", "UTC"), 5),
    column(pa.time32("s"), 7),
    column(pa.time32("ms"), 7),
    column(pa.time64("us"), 7),
    column(pa.time64("ns"), 7_001),
    *(column(kind, "", "snow", "é" * 40) for kind in (pa.string(), pa.large_string())),
    column(pa.string_view(), "snow on the glacier"),
    *(column(kind, b"", b"\0\0", b"12345678") for kind in (pa.binary(), pa.large_binary())),
    column(pa.binary(5), b"abcde"),
    column(pa.decimal32(5, 2), Decimal("-1.5")),
    column(pa.decimal64(15, 2), Decimal("1.5")),
    column(pa.decimal128(38, 4), Decimal("-12.5"), Decimal("1234567890123456789012345.1234")),
    column(pa.dictionary(pa.int8(), pa.string()), "a", "b", "a"),
    column(pa.list_(pa.string()), ["a", None], [], ["b"]),
    column(pa.list_(pa.int8(), 2), [1, 2], [None, 3]),
    column(pa.large_list(_X), [{"x": 1, "Y": "a"}, None], []),
    column(_X, {"x": 1, "Y": None}, {"x": None, "Y": "b"}),
    column(pa.map_(pa.string(), pa.int32()), [("k", 1)], [], [("z", None), ("b", 3)]),
    column(pa.uuid(), uuid.UUID(int=7).bytes),
]


@pytest.mark.parametrize("rows", COLUMNS, ids=lambda rows: str(rows.schema.types[0]))
def test_digests_are_those_of_the_product_for_every_type(rows: pa.Table) -> None:
    assert computed(rows) == str(digest_of(rows))
    assert computed(rows.slice(1)) == str(digest_of(rows.slice(1)))


_CELLS = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(),
        "t": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
        "b": st.none() | st.binary(max_size=40),
        "l": st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=4),
        "s": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"x": st.none() | st.booleans()})),
    }
)
_SCHEMA = pa.schema(
    [
        *(("i", pa.int64()), ("f", pa.float64()), ("t", pa.string()), ("b", pa.binary())),
        *(("l", pa.list_(pa.int64())), ("s", pa.list_(pa.struct([("x", pa.bool_())])))),
    ]
)


@pytest.mark.long
@given(st.lists(_CELLS, max_size=12))
@examples(40, 2000)
def test_digests_are_those_of_the_product_for_any_rows(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    assert computed(table) == str(digest_of(table))


@pytest.mark.parametrize(
    "kind", [pa.month_day_nano_interval(), pa.duration("s"), pa.decimal256(50, 2), pa.null()]
)
def test_a_type_without_a_digest_is_named(kind: pa.DataType) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(f"a column of type {kind}")):
        computed(pa.table({"a": pa.nulls(2, kind)}))


@pytest.mark.long
def test_parts_without_a_digest_are_counted(copy: Copy, check: Callable[..., Said]) -> None:
    path = append_of(copy)
    data = re.sub(rb',"g":"r1:[0-9a-f]{32}"', b"", path.read_bytes())
    path.write_bytes(sealed(data.split(b"\n")))
    code, lines = check(copy.folder, "--all")
    assert code == 0
    assert "        2 of these not checked: the log states no digest" in lines
