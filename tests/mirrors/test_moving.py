"""Engines that are not ours read the mirror of a table that was copied, renamed or cloned."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from firnline.log.txn_file import RunIdentity
from firnline.operations.clone.run import run_clone
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import run_check
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions, MergeOptions, RelocateOptions
from firnline.operations.relocate.run import run_relocate
from tests.mirrors.conftest import Mirrored

RUN = RunIdentity(run_id="r")


@dataclass(frozen=True)
class Elsewhere(Mirrored):
    """The same table at another place in the store."""

    @property
    def url(self) -> str:
        return f"{self.root.url}/u"


def copy(mirrored: Mirrored, *, rename: bool) -> Elsewhere:
    """Copy or rename the table object by object, as tools do that know nothing of it."""
    there = Elsewhere(mirrored.root, mirrored.scratch)
    old, new = mirrored.table(), there.table()
    start = len(old.paths.prefix)
    keys = [meta.key for meta in old.store.list(f"{old.paths.prefix}/")]
    for key in keys:
        new.store.put_new(new.paths.prefix + key[start:], old.store.get(key))
    if rename:
        assert not [each for each in old.store.delete_many(keys) if each.error]
    return there


def history(mirrored: Mirrored) -> None:
    """Several versions, the last of which replaces files."""
    mirrored.append(0)
    mirrored.publish()
    mirrored.append(6)
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    mirrored.publish()


def goes_on(there: Mirrored) -> None:
    """Engines see the rows, and those that the table gets at its new place."""
    assert [row["k"] for row in there.same()] == list(range(12))
    there.append(12)
    assert there.publish().written
    assert [row["k"] for row in there.same()] == list(range(18))
    assert run_check(there.table()).same


@pytest.mark.parametrize("rename", [False, True], ids=["copied", "renamed"])
def test_engines_read_the_mirror_of_a_table_that_was_moved(
    mirrored: Mirrored, rename: bool
) -> None:
    history(mirrored)
    there = copy(mirrored, rename=rename)
    run_relocate(Work(there.table()), RelocateOptions())
    goes_on(there)


@pytest.mark.parametrize("whole", [False, True], ids=["state", "history"])
def test_engines_read_the_mirror_of_a_clone(mirrored: Mirrored, whole: bool) -> None:
    history(mirrored)
    there = Elsewhere(mirrored.root, mirrored.scratch)
    run_clone(Work(mirrored.table(), RUN), CloneOptions(history=whole), target=there.table())
    assert there.publish().version == 0
    goes_on(there)
    assert [row["k"] for row in mirrored.same()] == list(range(12))
