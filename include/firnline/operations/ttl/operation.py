"""A TTL run, as every door takes it."""

from __future__ import annotations

from firnline.operations.operation import Operation
from firnline.operations.ttl.run import preview, run_ttl

OPERATION = Operation(preview, run_ttl)
