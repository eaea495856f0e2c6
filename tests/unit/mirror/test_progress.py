"""A publication tells how far it is, in each format and stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.mirror import progress
from firnline.mirror.iceberg import produce
from firnline.mirror.progress import MirrorProgress
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from tests.support.in_catalog import ROOT, catalog_world, where
from tests.support.log_tables import put_append
from tests.support.mirrors import RUN


def test_both_formats_tell_after_so_many_files_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_EVERY", 2)
    monkeypatch.setattr(produce, "FILES", 3)
    world = catalog_world(tmp_path, root=ROOT, mirror=["delta", {"iceberg": where(tmp_path)}])
    for _ in range(5):
        put_append(world)
    told: list[MirrorProgress] = []
    run_mirror(Work(world.table, RUN, tell=told.append), MirrorOptions())
    assert [(t.format, t.stage, t.done, t.total) for t in told] == [
        *(("delta", "write", done, 5) for done in (0, 2, 4, 5)),
        *(("iceberg", "describe", done, 5) for done in (0, 2, 4, 5)),
        *(("iceberg", "write", done, 5) for done in (0, 3, 5)),
    ]
    told.clear()
    run_mirror(Work(world.table, RUN, tell=told.append), MirrorOptions())
    assert told == []
