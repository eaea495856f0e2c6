"""``spark_jobs/merge.py``: what it does, says and needs.

By itself and through spark-submit it merges and ends with exit code 0, failed with 1, used wrongly
with 2: these are programs with a JVM of their own. The rest runs in this process (``Jobs``).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import settings_for_root
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tests.support.jobs import Jobs, run_job
from tools.s3server import StoreRoot

NO_JAVA = {"JAVA_HOME": "/nowhere"}


def filled(root: StoreRoot, appends: int = 5) -> Table:
    """A table of a few small parts."""
    access = StoreAccess.from_env(root.env) if root.env else None
    table = open_table(settings_for_root(f"{root.url}/table"), access)
    for number in range(appends):
        Appender(table).append(pa.table({"a": [number], "b": [str(number)]}))
    return table


def test_small_parts_become_one_and_a_second_run_opens_no_session(
    jobs: Jobs, store_root: StoreRoot
) -> None:
    table = filled(store_root)
    root = table.settings.root
    who = ("--run-id=r 1", "--dag-id=merge__t", "--try-number=2", "--user=ada")
    first = jobs.run("merge", root, "--master=local[3]", *who, env=store_root.env).report
    assert (first["counts"]["parts_in"], first["counts"]["parts_out"]) == (5, 1)
    assert [marker.n for marker in read_snapshot(table.store, table.paths).live.values()] == [5]
    (header,) = history(table)
    identity = header.run
    assert identity is not None
    assert (identity.run_id, identity.try_number, identity.user) == ("r 1", 2, "ada")
    again = jobs.run("merge", root, env=store_root.env).report
    assert (again["groups"], again["requests"]["put"]) == (0, 0)
    assert [lent.master for lent in jobs.lent] == ["local[3]"]


@pytest.mark.turn("a job with a JVM of its own")
def test_spark_submit_runs_the_same_job(tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    report = run_job("merge", table.settings.root, "--run-id=s", submit="local[2]").report
    assert report["counts"]["rows_out"] == 5


@pytest.mark.turn("a job with a JVM of its own")
def test_by_itself_it_merges_and_credentials_of_the_airflow_connection_win_over_the_environment(
    s3_root: StoreRoot,
) -> None:
    table = filled(s3_root)
    access = StoreAccess.from_env(s3_root.env)
    env = {
        **s3_root.env,
        "AWS_SECRET_ACCESS_KEY": "wrong",
        "FIRNLINE_STORE_ACCESS": access.to_json(),
    }
    done = run_job("merge", table.settings.root, "--master=local[2]", env=env)
    assert (done.report["groups_done"], done.report["counts"]["rows_out"]) == (1, 5)
    assert str(access.secret_key) not in done.out + done.err


def test_a_dry_run_prints_the_plan_and_opens_no_session(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    plan = jobs.run("merge", table.settings.root, "--dry-run").report
    assert plan["parts_in"] == 5
    assert not jobs.lent
    assert not history(table)


def test_a_group_that_cannot_be_read_ends_the_run_failed(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    key = next(iter(read_snapshot(table.store, table.paths).live))
    (tmp_path / key).write_bytes(b"broken")
    done = jobs.run("merge", table.settings.root, "--master=local[2]")
    assert (done.code, done.error["type"]) == (1, "MergeFailedError")
    assert key in done.error["message"]
    assert not history(table)


def test_a_merge_without_java_is_wrong_usage_of_the_machine(tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    done = run_job("merge", table.settings.root, env=NO_JAVA)
    assert done.code == 2
    assert "Java" in done.error["message"]
    assert done.error["next_step"]
    assert not history(table)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing-like-it",), "nothing-like-it"),
        (("{root}", "--max-bytes=lots"), "lots"),
        (("{root}", "--try-number=x"), "--try-number"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    jobs: Jobs, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    done = jobs.run("merge", *(text.format(root=table.settings.root) for text in arguments))
    assert done.code == 2
    assert words in done.error["message"]
    assert done.error["next_step"]
    assert not jobs.lent
    assert not history(table)
