"""A sweep of orphans, as every door takes it."""

from __future__ import annotations

from firnline.operations.operation import Operation
from firnline.operations.sweep.run import preview, run_sweep

OPERATION = Operation(preview, run_sweep)
