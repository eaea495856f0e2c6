"""A restore, as every door takes it."""

from __future__ import annotations

from firnline.operations.operation import Operation
from firnline.operations.restore.run import preview, run_restore

OPERATION = Operation(preview, run_restore)
