"""What an auditor gets of a table: certificates, witnesses, and the program that checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline import verify_table
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.bundle import PROGRAM, WITNESSES, bundle, write
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.state.witness import parse_certificates, parse_witnesses
from tests.support.histories import append, filled, table_world
from tests.support.world import World

RUN = RunIdentity(run_id="r", user="ana")
DAY = 86_400_000


def no_engine() -> Any:
    raise AssertionError("no part holds these keys")


def erased(world: World, key: int) -> str:
    world.clock.advance(10)
    options = EraseOptions(columns=("id",), keys=((key,),))
    certificate = run_erase(Work(world.table, RUN, no_engine), options).certificate
    assert certificate is not None
    return certificate


def test_a_bundle_has_the_program_the_witnesses_and_the_certificate_as_it_is_stored() -> None:
    world = filled(1)
    first = erased(world, 1_000_000)
    world.clock.advance(3 * DAY)
    digest = complete_certificate(world.table, first, RUN).sha256
    later = erased(world, 1_000_001)
    found = bundle(world.table, first)
    assert list(found) == [PROGRAM, WITNESSES, f"{first}.json"]
    assert found[PROGRAM] == Path(verify_table.__file__).read_bytes()
    stored = world.store.objects[world.table.paths.completed_certificate(first)][0]
    assert found[f"{first}.json"] == stored
    lines = found[WITNESSES].decode()
    assert [each.seq for each in parse_witnesses([lines], "t")] == [2]
    assert [(w.id, w.digest) for w in parse_certificates([lines], "t")] == [(first, digest)]
    assert list(bundle(world.table, None)) == [*found, f"{later}.json"]


def test_a_bundle_of_a_table_from_which_nothing_was_erased_has_what_there_is() -> None:
    world = table_world()
    append(world, 0)
    assert list(bundle(world.table, None)) == [PROGRAM]


def test_a_bundle_replaces_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert write(folder, {"x": b"1"}) == (folder / "x",)
    with pytest.raises(UsageError, match="is not an empty folder"):
        write(folder, {"y": b"2"})
    with pytest.raises(UsageError, match="is not an empty folder"):
        write(folder / "x", {"y": b"2"})
    assert [path.name for path in folder.iterdir()] == ["x"]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match=r"the bundle cannot be written into .*: Not a directory"):
        write(tmp_path / "file" / "b", {"x": b"1"})
