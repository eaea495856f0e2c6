"""What a checkpoint's columns cannot hold is not written as something else."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.errors import CheckpointError
from firnline.log import checkpoint as checkpoint_encode
from firnline.log.checkpoint import CheckpointHead
from firnline.log.records import Marker
from firnline.paths import TablePaths


@pytest.mark.parametrize("wrong", [{"tmb": -1}, {"n": -1}, {"q": -1}, {"b": 2**63}, {"t": 2**63}])
def test_a_number_that_no_column_holds_is_refused(wrong: dict[str, int]) -> None:
    # -1 stands for a key that is not there: a dead part would be alive.
    said: dict[str, Any] = {"b": 1, "t": 1, **wrong}
    head = CheckpointHead(seq=0, parts=1, covered=[], schemas=[])
    with pytest.raises(CheckpointError, match="nothing is lost: the log is read without one"):
        checkpoint_encode.encode(head, [Marker("t/_data/1.parquet", **said)], TablePaths("t"))
