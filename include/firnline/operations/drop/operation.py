"""A removal of partitions, as every door takes it."""

from __future__ import annotations

from firnline.operations.drop.run import preview, run_drop
from firnline.operations.operation import Operation

OPERATION = Operation(preview, run_drop)
