"""A clean-up, as every door takes it."""

from __future__ import annotations

from firnline.operations.cleanup.run import preview, run_cleanup
from firnline.operations.operation import Operation

OPERATION = Operation(preview, run_cleanup)
