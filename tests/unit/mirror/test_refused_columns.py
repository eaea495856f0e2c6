"""A column that a mirror cannot have is told by whoever meets it: one rule, several callers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.cli.doctor import examine
from firnline.errors import MirrorRefusedError
from firnline.mirror.delta.publish import publish
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.verify.run import run_verify
from firnline.settings.load import Settings
from tests.support.appends import make
from tests.support.log_tables import SCHEMA, put_append, snapshot
from tests.support.mirrors import RUN, mirrored_world
from tests.support.world import World, make_world

WIDE = {**SCHEMA, "wide": "UBIGINT"}
SAID = "column 'wide' of table t is UBIGINT, a type that Delta does not have"


def wanting(world: World, *mirrors: str) -> Any:
    """The table with settings that name mirrors."""
    return replace(world.table, settings=make_world(mirror=list(mirrors)).settings, wanted=None)


def test_verify_finds_it_at_once() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world, schema=WIDE)
    found = [
        f for f in run_verify(Work(world.table), VerifyOptions()).findings if "mirror" in f.kind
    ]
    assert [(each.kind, each.sentence) for each in found] == [("mirror-refused", SAID)]
    assert found[0].object == world.table.paths.delta_dir


def test_an_append_that_brings_it_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    table = make(mirror=["delta", "iceberg"])
    appender = Appender(table)
    appender.append(pa.table({"n": [1]}))
    assert not caplog.messages
    rows = pa.table({"n": [1], "wide": pa.array([1], pa.uint64())})
    assert appender.append(rows).new_columns == {"wide": "UBIGINT"}
    assert [text.partition(":")[0] for text in caplog.messages] == 2 * [
        "the mirror stays where it is"
    ]
    assert "that Delta does not have" in caplog.messages[0]
    assert "every reader of Iceberg" in caplog.messages[1]
    appender.append(rows)
    assert len(caplog.messages) == 2


def test_the_first_append_warns_of_it_too(caplog: pytest.LogCaptureFixture) -> None:
    Appender(make(mirror=["delta"])).append(pa.table({"wide": pa.array([1], pa.uint64())}))
    assert "'wide'" in caplog.text
    caplog.clear()
    Appender(make()).append(pa.table({"wide": pa.array([1], pa.uint64())}))
    assert not caplog.text


@pytest.mark.parametrize("stated", [False, True])
def test_a_person_begins_no_mirror_that_would_show_nothing(stated: bool) -> None:
    world = mirrored_world(mirror=[]) if stated else make_world()
    put_append(world, schema=WIDE)
    with pytest.raises(MirrorRefusedError, match=SAID):
        run_apply(wanting(world, "delta"), RUN)
    with pytest.raises(MirrorRefusedError, match="every reader of Iceberg"):
        run_apply(wanting(world, "iceberg"), RUN)
    assert not [record for record in snapshot(world).properties if record.values.mirrors]


def test_a_scheduled_run_goes_on_and_leaves_it_to_the_mirror_to_tell() -> None:
    world = mirrored_world(mirror=[])
    put_append(world, schema=WIDE)
    run_apply(wanting(world, "delta"), RUN, harmless=True)
    assert snapshot(world).properties[-1].values.mirrors == ("delta",)


def test_a_mirror_that_the_table_has_keeps_no_other_property_from_changing() -> None:
    world = mirrored_world()
    put_append(world, schema=WIDE)
    other = make_world(mirror=["delta"], sort_by=["wide"]).settings
    run_apply(replace(world.table, settings=other, wanted=None), RUN)


@pytest.mark.parametrize(("schema", "state"), [(SCHEMA, "ok"), (WIDE, "wrong")])
def test_doctor_compares_the_columns_with_the_mirrors_of_the_settings(
    schema: dict[str, str], state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "none"))
    world = make_world(mirror=["delta"])
    put_append(world, schema=schema)
    settings = Settings(Path("tables.yaml"), {"t": world.table.settings})
    checks = examine(lambda: settings, lambda _: world.table, (), write=False)
    (found,) = [check for check in checks if check.what == "t, mirror"]
    assert found.state == state
    assert state == "ok" or found.found == SAID
