"""A merge, as every door takes it."""

from __future__ import annotations

from firnline.operations.merge.run import preview, run_merge
from firnline.operations.operation import Operation

OPERATION = Operation(preview, run_merge)
