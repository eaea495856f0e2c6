"""A rebuild, as every door takes it."""

from __future__ import annotations

from firnline.operations.operation import Operation
from firnline.operations.rebuild.run import preview, run_rebuild

OPERATION = Operation(preview, run_rebuild)
