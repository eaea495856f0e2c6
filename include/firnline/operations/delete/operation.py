"""A delete, as every door takes it."""

from __future__ import annotations

from firnline.operations.delete.run import preview, run_delete
from firnline.operations.operation import Operation

OPERATION = Operation(preview, run_delete)
