"""A rewrite, as every door takes it."""

from __future__ import annotations

from firnline.operations.operation import Operation
from firnline.operations.rewrite.prepare import run_either
from firnline.operations.rewrite.run import preview

OPERATION = Operation(preview, run_either)
