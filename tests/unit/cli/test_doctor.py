"""`firnline doctor`: each thing that can be missing is one row, and says what to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from firnline import extras
from firnline.airflow import versions
from firnline.cli import doctor
from firnline.cli.doctor import Check, examine
from firnline.errors import EnvironmentFaultError, SettingsError, StoreAccessError
from firnline.extras import to_install
from firnline.launch.package import Package
from firnline.operations.pools import pools_json
from firnline.settings.launchers import SparkSettings
from firnline.settings.load import Settings, TableSettings
from firnline.store.probe import forget
from firnline.table import Table
from tests.support.launching import DIGEST, MANIFEST_OF_ONE
from tests.support.world import World, make_world


class Careless:
    """A store whose create-only puts overwrite."""

    def __init__(self, world: World) -> None:
        self.inner = world.store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put_new(self, key: str, data: bytes) -> None:
        self.inner.objects.pop(key, None)
        self.inner.put_new(key, data)


@pytest.fixture(autouse=True)
def nothing_probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget()
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "none"))


def checks(
    world: World, opened: Callable[[TableSettings], Table] | None = None, **how: Any
) -> dict[str, Check]:
    settings = Settings(Path("tables.yaml"), {"t": world.table.settings})
    found = examine(
        lambda: settings, opened or (lambda _: world.table), (), **{"write": True, **how}
    )
    return {check.what: check for check in found}


def test_a_machine_that_has_everything() -> None:
    world = make_world()
    found = checks(world)
    assert [c.what for c in found.values() if c.bad] == []
    assert {"Python", "firnline", "pyspark", "Java", "settings file"} <= found.keys()
    assert found["t"].state == "missing"
    assert "no table at" in found["t"].found
    assert found["t, conditional puts"].state == found["t, clock"].state == "ok"
    assert world.store.objects == {}, "the objects that it tried with are gone"


def test_requests_are_a_listing_and_only_with_the_right_to_write_eight() -> None:
    world = make_world()
    world.store.put_new("t/_log/x.jsonl", b"")
    before = world.store.counters.as_dict()
    assert "t, clock" not in checks(world, write=False)
    after = world.store.counters.as_dict()
    assert {k: after[k] - before[k] for k in ("get", "put", "list", "head")} == {
        "get": 0,
        "put": 0,
        "list": 1,
        "head": 0,
    }
    checks(world)
    more = world.store.counters.as_dict()
    assert {k: more[k] - after[k] for k in ("get", "put", "list", "head", "delete")} == {
        "get": 1,
        "put": 3,
        "list": 1,
        "head": 1,
        "delete": 2,
    }


def test_a_store_that_overwrites_is_wrong() -> None:
    world = make_world()
    table = Table(
        **{name: getattr(world.table, name) for name in ("settings", "paths", "clock", "ids")},
        store=Careless(world),
    )
    found = checks(world, lambda _: table)["t, conditional puts"]
    assert found.bad
    assert "two transactions could both commit" in found.found


@pytest.mark.parametrize(
    ("ahead_ms", "said"), [(3_600_000, "1h behind"), (-7_200_000, "1h 59m ahead of"), (30_000, "")]
)
def test_a_clock_that_is_wrong_by_more_than_a_minute_is_said(ahead_ms: int, said: str) -> None:
    world = make_world()
    head = world.store.head

    def shifted(key: str) -> Any:
        meta = head(key)
        return type(meta)(meta.key, meta.size, meta.modified_ms + ahead_ms)

    world.store.head = shifted  # type: ignore[method-assign]
    found = checks(world)["t, clock"]
    assert found.bad == bool(said)
    assert said in found.found


def test_a_store_that_cannot_be_opened_ends_the_checks_of_its_table_alone() -> None:
    def opened(_: TableSettings) -> Table:
        raise StoreAccessError("there are no AWS credentials", next_step="set them")

    found = checks(make_world(), opened)
    assert (found["t"].state, found["t"].next_step) == ("wrong", "set them")
    assert "t, clock" not in found


def test_a_settings_file_with_mistakes_ends_what_needs_it() -> None:
    def load() -> Settings:
        raise SettingsError("no file", next_step="write one")

    found = list(examine(load, lambda _: make_world().table, (), write=True))
    assert (found[-1].what, found[-1].state, found[-1].next_step) == (
        "settings file",
        "wrong",
        "write one",
    )


def test_versions_of_the_core_are_in_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(make_world())["libraries"]
    assert found.state == "ok"
    for name in ("duckdb", "pyarrow", "obstore", "boto3", "pydantic"):
        assert f"{name} {version(name)}" in found.found

    def known(name: str) -> str:
        if name == "obstore":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", known)
    assert checks(make_world())["libraries"].found == "not installed: obstore"


@pytest.mark.long
def test_packages_that_are_missing_say_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(name: str) -> str:
        if name in ("polars", "apache-airflow"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", known)
    found = checks(make_world())
    assert found["polars"].next_step == f"{to_install('polars')}, if you need it"
    assert (found["airflow"].state, found["airflow"].bad) == ("missing", False)


@pytest.mark.parametrize(
    ("plus", "less"),
    [
        ("AIRFLOW_3_0_PLUS", "runs the command line only: DAGs and operators need Airflow 3"),
        ("AIRFLOW_3_1_PLUS", "without questions to people, deadlines and the page"),
    ],
)
def test_an_older_airflow_is_ok_and_says_what_it_lacks(
    plus: str, less: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, plus, False)
    found = checks(make_world())["airflow"]
    assert (found.state, found.next_step) == ("ok", "see docs/support.md")
    assert less in found.found


@pytest.mark.long
def test_the_newest_airflow_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_1_PLUS", True)
    assert checks(make_world())["airflow"].found == version("apache-airflow")


@pytest.mark.long
def test_an_airflow_that_runs_the_command_line_needs_no_connection_for_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_0_PLUS", False)
    airflow(monkeypatch, tmp_path, 0, json.dumps({"slots": {}, "missing": [], "silent": {}}))
    assert "connections" not in checks(make_world())


@pytest.mark.parametrize(("client", "bad"), [("4.2.0", True), ("4.3.0", False)])
def test_another_version_of_pyspark_over_it_is_wrong(
    client: str, bad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"pyspark": "4.3.0", "pyspark-client": client}
    monkeypatch.setattr(extras, "version", lambda name: versions.get(name) or version(name))
    found = list(doctor._two_pysparks())
    assert [check.bad for check in found] == [True] * bad
    step = "pip uninstall -y pyspark-client, then pip install --force-reinstall --no-deps "
    assert [check.next_step for check in found] == [f"{step}pyspark==4.3.0"] * bad


def test_a_java_that_is_missing_is_wrong_only_where_spark_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from firnline.spark import session

    def missing() -> int:
        raise EnvironmentFaultError("there is none", next_step="install it")

    monkeypatch.setattr(session, "check_java", missing)
    assert checks(make_world())["Java"].bad
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    found = checks(make_world())
    assert found["Java"].state == "not checked"
    assert "Airflow" not in found


def airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, said: str) -> None:
    (tmp_path / "none").mkdir(exist_ok=True)
    done = subprocess.CompletedProcess([], code, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


def test_pools_and_connections_of_airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = make_world()
    settings = Settings(Path("tables.yaml"), {"t": world.table.settings})
    slots = {name: pool["slots"] for name, pool in pools_json(settings).items()}
    airflow(
        monkeypatch,
        tmp_path,
        0,
        "noise\n" + json.dumps({"slots": slots, "missing": [], "silent": {}}),
    )
    found = checks(world)
    assert (found["pools"].found, found["connections"].found) == ("all 3 of them", "spark_default")
    del slots["t.merge"]
    said = json.dumps({"slots": slots, "missing": ["spark_default"], "silent": {"a.Told": "no"}})
    airflow(monkeypatch, tmp_path, 0, said)
    found = checks(world)
    assert "the pool t.merge does not exist" in found["pools"].found
    assert "firnline pools > pools.json" in found["pools"].next_step
    assert found["connection"].found == "Airflow has no connection spark_default"
    assert found["notifier"].found == "a.Told cannot be imported: no"
    airflow(monkeypatch, tmp_path, 0, json.dumps({"slots": {}, "missing": [], "silent": {}}))
    assert checks(world)["pools"].found.startswith("3 of 3 pools are not as they must be: ")


@pytest.mark.parametrize(("code", "said"), [(1, "{}"), (0, ""), (0, "no json")])
def test_a_database_that_does_not_answer_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, said: str
) -> None:
    airflow(monkeypatch, tmp_path, code, said)
    found = checks(make_world())["Airflow"]
    assert (found.bad, "does not answer" in found.found) == (True, True)


def on_platform(url: str) -> World:
    """A table whose jobs run on Glue."""
    world = make_world()
    spark = {"package": url, "conn_id": "account", "glue": {"job": "firnline"}}
    more = {"spark": SparkSettings.model_validate(spark)}
    settings = world.table.settings.model_copy(update=more)
    object.__setattr__(world.table, "settings", settings)
    return world


def put_package(folder: Path, number: str, *, without: str = "") -> str:
    there = folder / f"{number}-{DIGEST}"
    package = Package(f"file://{there}", replace(MANIFEST_OF_ONE, version=number))
    there.mkdir()
    for name in package.files:
        if name != without:
            (there / name).write_text("x")
    (there / "manifest.json").write_bytes(msgspec.json.encode(package.manifest))
    return package.url


def test_a_package_that_is_complete_and_of_this_version_is_ok(tmp_path: Path) -> None:
    url = put_package(tmp_path, version("firnline"))
    found = checks(on_platform(url))["package"]
    assert (found.state, url in found.found) == ("ok", True)
    assert "complete, for Python 3.11, which the platform needs" in found.found


def test_a_package_that_a_run_cannot_use_is_wrong_and_says_what_to_do(tmp_path: Path) -> None:
    gone = f"file://{tmp_path}/9.9-{DIGEST}"
    other = put_package(tmp_path, "1.2")
    partly = put_package(tmp_path, version("firnline"), without="environment.tar.gz")
    for url, said in (
        (gone, f"nothing is published at {gone}"),
        (other, f"has firnline 1.2, and here is {version('firnline')}"),
        (partly, "is not complete"),
    ):
        found = checks(on_platform(url))["package"]
        assert found.bad
        assert said in found.found
        assert "firnline spark publish URL" in found.next_step


@pytest.mark.long
def test_platforms_are_asked_by_airflow_and_need_no_connection_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = on_platform(put_package(tmp_path, version("firnline")))
    asked: list[dict[str, Any]] = []
    name = f"glue of {world.table.settings.name}"
    deaf: dict[str, Any] = {name: ["Glue has no region", "set one"]}

    def run(command: list[str], **_: Any) -> Any:
        asked.append(json.loads(command[-1]))
        said = json.dumps({"slots": {}, "missing": [], "silent": {}, "deaf": deaf})
        return subprocess.CompletedProcess([], 0, said, "")

    (tmp_path / "none").mkdir()
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(doctor, "_java", lambda: Check("Java", "ok", "17"))
    found = checks(world)["platform"]
    assert (found.state, found.found, found.next_step) == ("wrong", "Glue has no region", "set one")
    assert asked[0]["connections"] == ["account"]
    assert asked[0]["platforms"][name]["glue"]["job"] == "firnline"
    deaf.clear()
    assert checks(world)["platform"].found == f"{name} answers"


@pytest.mark.parametrize(
    ("spark", "needed"),
    [
        ({}, "spark_default"),
        ({"launcher": "none"}, None),
        ({"launcher": "connect", "conn_id": "c"}, "c"),
        ({"package": f"s3://b/1.2-{DIGEST}", "glue": {"job": "j"}}, None),
    ],
)
def test_only_connections_that_jobs_need_are_looked_for(
    spark: dict[str, Any], needed: str | None
) -> None:
    assert doctor._spark_connection(SparkSettings.model_validate(spark)) == needed
