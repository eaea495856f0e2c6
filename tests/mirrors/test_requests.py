"""What a version of a mirror costs on a real store: 1 LIST, 1 GET and 1 PUT besides the log."""

from __future__ import annotations

from firnline.commit.base import read_base
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, MirrorOptions
from tests.mirrors.conftest import Mirrored

RUN = RunIdentity(run_id="r")
KINDS = ("get", "put", "list", "head", "delete", "retries")


def test_a_version_is_three_requests_besides_those_that_read_the_log(mirrored: Mirrored) -> None:
    mirrored.append(0)
    mirrored.publish()
    for change in (
        lambda: mirrored.append(6),
        lambda: run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True)),
    ):
        change()
        table = mirrored.table()
        read_base(table)
        read = table.store.counters.as_dict()
        report = run_mirror(Work(mirrored.table(), RUN), MirrorOptions())
        assert report.delta is not None
        assert report.delta.written
        besides = {kind: report.requests[kind] - read[kind] for kind in KINDS}
        assert besides == {"get": 1, "put": 1, "list": 1, "head": 0, "delete": 0, "retries": 0}
