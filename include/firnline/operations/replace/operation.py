"""A replace, as every door takes it."""

from __future__ import annotations

from firnline.operations.operation import Operation
from firnline.operations.replace.run import preview, run_replace

OPERATION = Operation(preview, run_replace)
