"""``spark_jobs/merge.py`` as a program: what it does, says and needs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firnline.append import Appender
from firnline.history import history
from firnline.settings import settings_for_root
from firnline.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from firnline_dev.s3server import StoreRoot
from tests.support.jobs import Done, run_job

NO_JAVA = {"JAVA_HOME": "/nowhere"}


def run(*arguments: str, env: dict[str, str] | None = None, submit: bool = False) -> Done:
    return run_job("merge", *arguments, env=env, submit="local[2]" if submit else None)


def filled(root: StoreRoot, appends: int = 5) -> Table:
    """A table of a few small parts."""
    access = StoreAccess.from_env(root.env) if root.env else None
    table = open_table(settings_for_root(f"{root.url}/table"), access)
    for number in range(appends):
        Appender(table).append(pa.table({"a": [number], "b": [str(number)]}))
    return table


def test_small_parts_become_one_and_a_second_run_starts_no_jvm(store_root: StoreRoot) -> None:
    table = filled(store_root)
    root = table.settings.root
    who = ("--run-id=r 1", "--dag-id=merge__t", "--try-number=2", "--user=ada")
    first = run(root, "--master=local[2]", *who, env=store_root.env).report
    assert (first["counts"]["parts_in"], first["counts"]["parts_out"]) == (5, 1)
    assert [marker.n for marker in read_snapshot(table.store, table.paths).live.values()] == [5]
    (header,) = history(table)
    identity = header.run
    assert identity is not None
    assert (identity.run_id, identity.try_number, identity.user) == ("r 1", 2, "ada")
    again = run(root, "--master=local[2]", env={**store_root.env, **NO_JAVA}).report
    assert (again["groups"], again["requests"]["put"]) == (0, 0)


def test_spark_submit_runs_the_same_job(tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    report = run(table.settings.root, "--run-id=s", submit=True).report
    assert report["counts"]["rows_out"] == 5


def test_credentials_of_the_airflow_connection_win_over_the_environment(
    s3_root: StoreRoot,
) -> None:
    table = filled(s3_root)
    access = StoreAccess.from_env(s3_root.env)
    env = {
        **s3_root.env,
        "AWS_SECRET_ACCESS_KEY": "wrong",
        "FIRNLINE_STORE_ACCESS": access.to_json(),
    }
    done = run(table.settings.root, "--master=local[2]", env=env)
    assert done.report["groups_done"] == 1
    assert str(access.secret_key) not in done.out + done.err


def test_a_dry_run_prints_the_plan_without_java(tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    plan = run(table.settings.root, "--dry-run", env=NO_JAVA).report
    assert plan["parts_in"] == 5
    assert not history(table)


def test_a_group_that_cannot_be_read_ends_the_run_failed(tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    key = next(iter(read_snapshot(table.store, table.paths).live))
    (tmp_path / key).write_bytes(b"broken")
    done = run(table.settings.root, "--master=local[2]")
    assert (done.code, done.error["type"]) == (1, "MergeFailedError")
    assert key in done.error["message"]
    assert not history(table)


@pytest.mark.parametrize(
    ("arguments", "env", "code", "words"),
    [
        (("nothing-like-it",), {}, 2, "nothing-like-it"),
        (("{root}", "--max-bytes=lots"), {}, 2, "lots"),
        (("{root}", "--try-number=x"), {}, 2, "--try-number"),
        (("{root}",), NO_JAVA, 2, "Java"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], env: dict[str, str], code: int, words: str
) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    done = run(*(text.format(root=table.settings.root) for text in arguments), env=env)
    assert done.code == code
    assert words in done.error["message"]
    assert done.error["next_step"]
    assert not history(table)
