"""What goes wrong is one sentence that names the object and the next step; the table stays.

Exit code 2 for wrong usage, 1 for a failure; no traceback of a library without --debug.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.store import client
from firnline.store.requests import RetryPolicy
from tests.e2e.conftest import PARTS, T_MS, Place, parquet
from tests.e2e.resigning import forgetful
from tests.support.cli import Outcome, content_of, program, settings_file
from tests.support.programs import run_program
from tools.s3server import S3Server, StoreRoot

Firnline = Callable[..., Outcome]
READS = ("parts", "snapshot")


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Whatever happens within: every object below the folder is the same afterwards."""
    before = content_of(folder)
    yield
    assert content_of(folder) == before


def refused(shown: Outcome, code: int, *said: str) -> None:
    """Exit code, and one sentence in which each of ``said`` occurs."""
    assert shown.code == code, shown
    assert shown.out == ""
    for text in said:
        assert text in shown.sentence
    assert "Traceback" not in shown.err


# --- settings -------------------------------------------------------------------------------------


def test_an_unknown_table_names_those_there_are(firnline: Firnline, place: Place) -> None:
    for command in (["parts"], ["merge"], ["plan", "merge"], ["history"], ["append"]):
        files = [place.settings] if command == ["append"] else []
        shown = firnline(*command, "evnts", *files, "--settings", place.settings)
        refused(shown, 2, f"no table 'evnts' in {place.settings}; use one of events")


def test_an_unknown_setting_names_file_field_and_the_likely_one(
    firnline: Firnline, place: Place
) -> None:
    place.configure("merge: {target_sice: 1GiB}")
    for command in (["settings", "check"], ["merge", "events"]):
        with unchanged(place.folder):
            shown = firnline(*command, "--settings", place.settings)
        refused(
            shown,
            2,
            f"{place.settings}: tables.events.merge.target_sice: is not a setting; "
            "did you mean target_size?",
        )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("merge: {target_size: 1.5 bananas}", "tables.events.merge.target_size: "),
        ("merge: {min_inputs: 1}", "tables.events.merge.min_inputs: "),
        ("partition_by: [fortnight(ts)]", "tables.events.partition_by[0]: "),
        ("cleanup: {schedule: every now and then}", "tables.events.cleanup.schedule: "),
    ],
)
def test_a_mistake_in_the_settings_names_file_and_field(
    firnline: Firnline, place: Place, text: str, field: str
) -> None:
    place.configure(text)
    shown = firnline("settings", "check", "--settings", place.settings)
    refused(shown, 2, f"{place.settings}: {field}", "correct the file")


def test_a_settings_file_that_is_no_yaml_names_the_line(firnline: Firnline, place: Place) -> None:
    place.settings.write_text("tables:\n  events: {root: 's3://b/x'\n", encoding="utf-8")
    shown = firnline("parts", "events", "--settings", place.settings)
    refused(shown, 2, f"{place.settings}", "line")
    missing = place.settings.with_name("none.yaml")
    refused(firnline("parts", "events", "--settings", missing), 2, str(missing))


def test_an_unknown_column_names_the_setting_and_the_columns(
    firnline: Firnline, place: Place, rows: Path
) -> None:
    place.configure("sort_by: [nope]")
    with unchanged(place.folder):
        shown = firnline("properties", "apply", "events", "--yes", "--settings", place.settings)
        refused(shown, 2, "'nope'", "sort_by", "id, v")
    new = place.root.replace("events", "new")
    text = f"tables: {{new: {{root: '{new}', partition_by: [nope]}}}}"
    settings = settings_file(place.settings.parent, text)
    shown = firnline("append", "new", rows, "--settings", settings)
    refused(shown, 2, "nope", "partition_by")


def test_a_partition_that_does_not_exist_is_wrong_usage(firnline: Firnline, place: Place) -> None:
    with unchanged(place.folder):
        refused(firnline("merge", place.root, "--partitions", "e=*"), 2, "'e=*'", "d=1, d=2")


# --- the store ------------------------------------------------------------------------------------


def test_a_bucket_that_does_not_exist_is_named(firnline: Firnline, s3_root: StoreRoot) -> None:
    for command in (*READS, "schema", "history", "merge"):
        shown = firnline(command, "s3://no-such-bucket/t", env=s3_root.env)
        refused(shown, 2, "no-such-bucket")


def test_wrong_credentials_are_told_and_never_printed(
    firnline: Firnline, s3_server: S3Server, s3_root: StoreRoot, rows: Path
) -> None:
    assert firnline("append", s3_root.url, rows, env=s3_root.env).code == 0
    wrong = {**s3_root.env, "AWS_SECRET_ACCESS_KEY": "not-the-secret-key"}
    unknown = {**s3_root.env, "AWS_ACCESS_KEY_ID": "AKNOBODY"}
    with unchanged(s3_server.data_dir / s3_server.bucket):
        for env, said in ((wrong, "correct the secret key"), (unknown, "correct the access key")):
            for command in (["parts", s3_root.url], ["append", s3_root.url, rows]):
                shown = firnline(*command, env=env)
                refused(shown, 2, "s3://firnline", said)
                assert "not-the-secret-key" not in shown.err
    shown = program("parts", s3_root.url, env=wrong)
    refused(shown, 2, "correct the secret key")
    assert "not-the-secret-key" not in shown.err
    none = {name: None for name in s3_root.env if "KEY" in name}
    refused(firnline("parts", s3_root.url, env={**s3_root.env, **none}), 2, "no AWS credentials")


def test_an_endpoint_where_nobody_answers_is_a_failure(
    firnline: Firnline, s3_root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = partial(RetryPolicy, first_wait=0.001, longest_wait=0.01)
    monkeypatch.setattr(client, "RetryPolicy", soon)
    nobody = "http://127.0.0.1:9"
    env = {**s3_root.env, "AWS_ENDPOINT_URL": nobody, "AWS_ENDPOINT_URL_S3": nobody}
    shown = firnline("parts", s3_root.url, env=env)
    assert shown.code in (1, 2)
    assert "127.0.0.1:9" in shown.sentence


def test_a_store_that_ignores_create_only_puts_is_refused(
    firnline: Firnline, s3_server: S3Server, s3_root: StoreRoot, rows: Path
) -> None:
    for _ in range(PARTS):
        assert firnline("append", s3_root.url, rows, env=s3_root.env).code == 0
    with forgetful(s3_server) as endpoint, unchanged(s3_server.data_dir / s3_server.bucket):
        env = {**s3_root.env, "AWS_ENDPOINT_URL": endpoint, "AWS_ENDPOINT_URL_S3": endpoint}
        assert firnline("parts", s3_root.url, env=env).code == 0
        shown = firnline("merge", s3_root.url, env=env)
        assert shown.code == 1
        assert "two transactions could both commit" in shown.err
        assert "locking: pool-only" in shown.err
    assert firnline("merge", s3_root.url, env=s3_root.env).code == 0


# --- files to append ------------------------------------------------------------------------------


def cut(path: Path, target: Path) -> Path:
    target.write_bytes(path.read_bytes()[:-20])
    return target


def encrypted(target: Path) -> Path:
    """Parquet with an encrypted footer."""
    with duckdb.connect() as connection:
        connection.execute("PRAGMA add_parquet_key('k', '0123456789112345')")
        connection.execute("SET force_mbedtls_unsafe = 'true'")  # nobody's secret
        connection.execute(
            f"COPY (SELECT 1::BIGINT AS id, 'a' AS v) TO '{target}' "
            "(FORMAT parquet, ENCRYPTION_CONFIG {footer_key: 'k'})"
        )
    return target


def test_append_refuses_a_file_that_is_cut_or_encrypted_or_no_parquet(
    firnline: Firnline, place: Place, rows: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.parquet"
    text.write_text("id,v\n1,a\n", encoding="utf-8")
    empty = tmp_path / "empty.parquet"
    empty.touch()
    bad = [cut(rows, tmp_path / "cut.parquet"), encrypted(tmp_path / "secret.parquet"), text, empty]
    for file in [*bad, tmp_path / "absent.parquet", tmp_path]:
        with unchanged(place.folder):
            # Behind a good file: it must not be appended either.
            shown = firnline("append", place.root, rows, file, "--partition", "d=1")
        assert shown.code in (1, 2)
        refused(shown, shown.code, str(file))


def test_append_refuses_other_types_and_names_both(
    firnline: Firnline, place: Place, rows: Path, tmp_path: Path
) -> None:
    other = parquet(tmp_path / "other.parquet", id=pa.array(["x"]), v=pa.array(["y"]))
    with unchanged(place.folder):
        shown = firnline("append", place.root, rows, other, "--partition", "d=1")
    refused(shown, 2, "id", "BIGINT", "VARCHAR", str(other), "log file events/_log/")


# --- the log --------------------------------------------------------------------------------------


def test_a_schema_conflict_names_column_types_and_both_log_files(
    firnline: Firnline, place: Place, rows: Path
) -> None:
    other = place.adopt("d=1", rows, {"id": "VARCHAR", "v": "VARCHAR"})
    with unchanged(place.folder):
        for command in (*READS, "merge"):
            shown = firnline(command, place.root)
            refused(shown, 1, "id", "VARCHAR", "BIGINT", f"events/_log/{other.name}")
            assert f"events/_log/{place.logs()[1].name}" in shown.sentence
        # The command that shows the way out still answers.
        shown = firnline("schema", place.root)
        assert shown.code == 0
        assert "VARCHAR" in shown.out
        assert "BIGINT" in shown.out
        assert "schema fix" in shown.out


def test_a_log_line_that_does_not_parse_names_file_and_line(
    firnline: Firnline, place: Place, rows: Path
) -> None:
    log = place.logs()[3]
    part = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["p"]
    # Without a checksum, as clients of log version 1 write it.
    lines = ['{"v":1,"t":1,"sch":1,"f":2}', '{"id":"BIGINT"}', f'{{"p":"{part}","b":1,"t":1}}']
    log.write_text("\n".join([*lines, '{"p":"events/_data/x']), encoding="utf-8")
    with unchanged(place.folder):
        for command in ("parts", "merge"):
            refused(firnline(command, place.root), 1, f"log file events/_log/{log.name} line 4 ")
    # An append reads no more than the schema line.
    log.write_text("\n".join([lines[0], '{"id":', lines[2]]), encoding="utf-8")
    with unchanged(place.folder):
        shown = firnline("append", place.root, rows, "--partition", "d=1")
        refused(shown, 1, f"log file events/_log/{log.name} line 2 ")


def test_a_log_file_with_one_changed_digit_is_refused(firnline: Firnline, place: Place) -> None:
    log = place.logs()[0]
    log.write_bytes(log.read_bytes().replace(b'"b":', b'"b":1', 1))
    with unchanged(place.folder):
        for command in ("parts", "merge"):
            refused(firnline(command, place.root), 1, f"events/_log/{log.name} line 3 ", "checksum")


@pytest.mark.parametrize(
    "path",
    [
        "other/_data/x.parquet",
        "events/_data/../../other/x.parquet",
        "events/_log/x.parquet",
        "/etc/passwd",
    ],
)
def test_a_marker_outside_the_table_is_an_error_and_never_followed(
    firnline: Firnline, place: Place, path: str
) -> None:
    log = place.folder / "_log" / f"{T_MS:013d}_other-1.jsonl"
    lines = ['{"v":1,"t":1,"sch":1,"f":2}', '{"id":"BIGINT"}', f'{{"p":"{path}","b":1,"t":1}}']
    log.write_text("\n".join(lines), encoding="utf-8")
    with unchanged(place.folder.parent):
        for command in ("parts", "merge"):
            shown = firnline(command, place.root)
            refused(shown, 1, path, log.name, "not an object under events/_data/")


# --- parts ----------------------------------------------------------------------------------------


def only_the_other_was_merged(firnline: Firnline, place: Place, damaged: Path) -> None:
    """A merge reports the damaged part of d=1, merges d=2, and ends failed."""
    before = {part: part.read_bytes() for part in place.parts("d=1")}
    shown = firnline("merge", place.root, "--json")
    assert shown.code == 1
    key = f"events/_data/d=1/{damaged.name}"
    (failure,) = shown.data["failures"]
    assert (failure["partition"], failure["key"]) == ("d=1", key)
    assert key in failure["message"]
    assert (shown.data["groups"], shown.data["groups_done"]) == (2, 1)
    assert shown.error["type"] == "MergeFailedError"
    assert "1 of 2 groups" in shown.error["message"]
    assert {part: part.read_bytes() for part in place.parts("d=1")} == before
    counts = {
        found["partition"]: found["parts"]
        for found in firnline("parts", place.root, "--json").data["partitions"]
    }
    assert counts == {"d=1": max(PARTS, len(before)), "d=2": 1}


def test_merge_reports_a_part_that_is_cut_and_goes_on(firnline: Firnline, place: Place) -> None:
    damaged = place.parts("d=1")[1]
    cut(damaged, damaged)
    only_the_other_was_merged(firnline, place, damaged)
    again = firnline("merge", place.root)
    assert again.code == 1
    assert f"events/_data/d=1/{damaged.name}" in again.err
    assert "Traceback" not in again.err


def test_merge_reports_a_part_with_garbage_inside_and_goes_on(
    firnline: Firnline, place: Place
) -> None:
    damaged = place.parts("d=1")[1]
    data = damaged.read_bytes()
    damaged.write_bytes(data[:4] + bytes(len(data) - 8) + data[-4:])
    only_the_other_was_merged(firnline, place, damaged)


def test_merge_reports_an_encrypted_part_and_goes_on(
    firnline: Firnline, place: Place, tmp_path: Path
) -> None:
    before = set(place.parts("d=1"))
    place.adopt("d=1", encrypted(tmp_path / "x.parquet"), {"id": "BIGINT", "v": "VARCHAR"})
    (damaged,) = set(place.parts("d=1")) - before
    only_the_other_was_merged(firnline, place, damaged)


def test_merge_reports_a_part_of_other_types_and_goes_on(
    firnline: Firnline, place: Place, tmp_path: Path
) -> None:
    other = parquet(tmp_path / "other.parquet", id=pa.array(["x"]), v=pa.array(["y"]))
    before = set(place.parts("d=1"))
    place.adopt("d=1", other, {"id": "BIGINT", "v": "VARCHAR"})
    (damaged,) = set(place.parts("d=1")) - before
    only_the_other_was_merged(firnline, place, damaged)


def test_merge_reports_a_part_that_is_missing_and_goes_on(firnline: Firnline, place: Place) -> None:
    missing = place.parts("d=1")[2]
    missing.unlink()
    only_the_other_was_merged(firnline, place, missing)


def test_what_a_failed_merge_says_to_people(place: Place) -> None:
    damaged = place.parts("d=1")[0]
    cut(damaged, damaged)
    shown = program("merge", place.root)
    assert shown.code == 1
    assert "1 of 2 committed" in shown.out
    assert "not merged because" in shown.out
    assert damaged.name in shown.out.replace("\n", "")
    assert shown.err.splitlines()[-1] == (
        "firnline: 1 of 2 groups of events could not be merged, for the reasons above; "
        "repair or restore the named parts and run it again"
    )


# --- this machine ---------------------------------------------------------------------------------


@contextmanager
def tiny_disk(folder: Path) -> Iterator[list[str]]:
    """A folder on a disk of 64 KiB; gives the words to put before a command.

    A real one where mounting is allowed, else a bound on the size of files, which the system
    reports as a full disk too.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield [] if mounted else ["prlimit", "--fsize=32768"]
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def test_a_full_scratch_disk_is_named(firnline: Firnline, tmp_path: Path) -> None:
    place = Place(tmp_path / "big", tmp_path / "tables.yaml")
    # More than is merged in memory, without a file on that disk.
    noise = pa.array([bytes(os.urandom(64)) for _ in range(20_000)])
    rows = parquet(tmp_path / "noise.parquet", noise=noise)
    for _ in range(PARTS):
        assert firnline("append", place.root, rows).code == 0
    with tiny_disk(tmp_path / "scratch") as before, unchanged(place.folder):
        command = [sys.executable, "-m", "firnline.cli.app", "merge", place.root]
        done = run_program([*before, *command, "--scratch", tmp_path / "scratch"])
        assert done.returncode == 1, done.stderr
        assert f"the scratch folder {tmp_path}/scratch" in done.stderr
        assert "is full" in done.stderr
        assert "`--scratch` of the command" in done.stderr
        assert "do what each reason says and run it again" in done.stderr
        assert "drop" not in done.stderr, "no part is at fault"
        assert "Traceback" not in done.stderr
    assert firnline("merge", place.root).code == 0


def test_a_folder_that_cannot_be_written_to_is_named(
    firnline: Firnline, place: Place, rows: Path
) -> None:
    blocked = place.folder.with_name("blocked")
    blocked.write_text("a file, no folder", encoding="utf-8")
    with unchanged(place.folder.parent):
        shown = firnline("append", f"file://{blocked}/t", rows)
        assert shown.code in (1, 2)
        refused(shown, shown.code, str(blocked))


def test_no_row_is_lost_whatever_went_wrong(firnline: Firnline, place: Place) -> None:
    damaged = place.parts("d=1")[1]
    whole = damaged.read_bytes()
    cut(damaged, damaged)
    merge = ("merge", "events", "--settings", place.settings)
    assert firnline(*merge).code == 1
    damaged.write_bytes(whole)
    assert firnline(*merge).code == 0
    data = firnline("parts", place.root, "--json").data
    assert (data["total"]["parts"], data["total"]["rows"]) == (2, 2 * PARTS * 3)
    merged = [part for d in ("d=1", "d=2") for part in place.parts(d)]
    newest = sorted(merged, key=lambda part: part.name)[-1]
    assert pq.read_table(newest, partitioning=None)["id"].to_pylist() == sorted([1, 2, 3] * PARTS)
