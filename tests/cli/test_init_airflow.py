"""`firnline init --airflow`: DAG files of a few lines."""

from __future__ import annotations

import io
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.airflow import making, versions
from tests.support.cli import Outcome

FILES = ["firnline_all_tables.py", "firnline_own_dags.py"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "dags").iterdir())


def test_it_writes_files_that_make_all_dags(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = firnline("init", "--airflow", str(tmp_path), "--yes")
    assert (found.code, found.err) == (0, "")
    assert names(tmp_path) == FILES
    assert "airflow pools import pools.json" in found.out
    made: list[object] = []
    monkeypatch.setattr(making, "make_for_all_tables", lambda *_: made.append("shared"))
    monkeypatch.setattr(
        making, "make_of_single_tables", lambda jobs, file, _: made.append((jobs, file.name))
    )
    for name in FILES:
        runpy.run_path(str(tmp_path / "dags" / name))
    assert made == ["shared", (making.JOBS, FILES[1])]
    for name in FILES:
        text = (tmp_path / "dags" / name).read_text()
        assert "airflow" in text, "Airflow's safe mode passes over a file without both words"
        assert "dag" in text


def test_a_dry_run_shows_them_and_writes_nothing(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    found = firnline("init", "--airflow", str(tmp_path / "new"), "--dry-run")
    assert found.code == 0
    assert "firnline_all_tables.py, a new file:" in found.out
    assert "dag_factory(own=False)" in found.out
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_unless_somebody_says_yes(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = firnline("init", "--airflow", str(tmp_path))
    assert silent.code == 2
    assert silent.sentence.endswith("look with --dry-run, then give --yes")
    for answer, code in (("no", 1), ("yes", 0)):
        answers = io.StringIO(f"{answer}\n")
        monkeypatch.setattr(answers, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", answers)
        assert firnline("init", "--airflow", str(tmp_path)).code == code
        assert (tmp_path / "dags").exists() is (answer == "yes")


def test_a_file_that_is_there_is_never_replaced(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    firnline("init", "--airflow", str(tmp_path), "--yes")
    edited = tmp_path / "dags" / FILES[0]
    edited.write_text("from firnline.airflow import dag_factory\ndag_factory(own=False, queue='q')")
    (tmp_path / "dags" / FILES[1]).unlink()
    again = firnline("init", "--airflow", str(tmp_path), "--yes")
    assert f"{edited} is there already, with lines of yours: it stays as it is." in again.out
    assert "queue='q'" in edited.read_text()
    assert names(tmp_path) == FILES
    edited.write_text("print('airflow dag')")
    other = firnline("init", "--airflow", str(tmp_path), "--yes")
    assert other.code == 2
    assert other.sentence == (
        f"{edited} is there, and makes no DAGs of firnline; give it another name, and run the same "
        "command again"
    )


def test_shares_of_the_tables_stand_for_their_file(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "dags").mkdir()
    for number in (1, 2):
        share = tmp_path / "dags" / f"firnline_own_dags_{number}_of_2.py"
        share.write_text("from firnline.airflow import dag_factory\ndag_factory(shared=False)")
    assert firnline("init", "--airflow", str(tmp_path), "--yes").code == 0
    assert FILES[1] not in names(tmp_path)
    assert FILES[0] in names(tmp_path)


def test_files_that_make_the_same_dags_have_to_go_first(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "dags").mkdir()
    old = tmp_path / "dags" / "all_tables.py"
    old.write_text("make_for_all_tables(Path('spark_jobs'))")
    found = firnline("init", "--airflow", str(tmp_path), "--yes")
    assert found.code == 2
    assert found.sentence == (
        f"{old} would make the same DAGs; remove it, and a copied spark_jobs/ too, and run the "
        "same command again; or go on with it"
    )
    assert names(tmp_path) == ["all_tables.py"]


def test_a_copied_plugin_is_named(firnline: Callable[..., Outcome], tmp_path: Path) -> None:
    copy = tmp_path / "plugins" / "firnline_plugin" / "pool_guard_plugin.py"
    copy.parent.mkdir(parents=True)
    copy.write_text("class FirnlinePlugin(AirflowPlugin): ...")
    found = firnline("init", "--airflow", str(tmp_path), "--yes")
    assert f"{copy} is a copy of what the package registers itself: remove it." in found.out


def test_a_folder_that_is_none_is_named(firnline: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = firnline("init", "--airflow", str(tmp_path / "file"), "--yes")
    assert found.code != 0
    assert found.sentence.endswith("give the folder of an Airflow with --airflow")


def test_a_table_is_another_command(firnline: Callable[..., Outcome], tmp_path: Path) -> None:
    found = firnline("init", "events", "--airflow", str(tmp_path), "--yes")
    assert found.code == 2
    assert found.sentence == (
        "--airflow writes the DAG files, which are the same for any table, and something was said "
        "of a table; write the table with a command of its own"
    )


@pytest.mark.parametrize("url", ["s3://lake/x", "file:///opt/airflow", "gs://b"])
def test_a_url_is_no_folder_of_this_machine(
    firnline: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (("--airflow", url), ("events", "--root", "s3://b/x", "--settings", url)):
        found = firnline("init", *given, "--yes")
        assert (found.code, list(tmp_path.iterdir())) == (2, [])
        assert f" is a URL ({url.partition(':')[0]}), and what is writ" in found.sentence


def test_a_tilde_is_the_home_of_who_runs_it(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert firnline("init", "--airflow", "~/airflow", "--yes").code == 0
    assert names(tmp_path / "home" / "airflow") == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    nobody = firnline("init", "--airflow", "~nobody-of-that-name/x", "--yes")
    assert nobody.sentence.startswith("--airflow is ~nobody-of-that-name/x, and there is no such")


def test_an_airflow_2_gets_no_files_that_it_cannot_import(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_0_PLUS", False)
    found = firnline("init", "--airflow", str(tmp_path), "--yes")
    assert (found.code, list(tmp_path.iterdir())) == (2, [])
    assert found.sentence.startswith("the DAG files of firnline need Airflow 3, and this is Air")
    assert "run the command line in a BashOperator, as docs/support.md" in found.sentence
