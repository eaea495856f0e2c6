"""An erase, as every door takes it."""

from __future__ import annotations

from firnline.operations.erase.run import preview, run_erase
from firnline.operations.operation import Operation

OPERATION = Operation(preview, run_erase)
