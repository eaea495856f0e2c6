"""A check, as every door takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firnline.operations.operation import Operation
from firnline.operations.verify.run import refuse_findings, run_verify

if TYPE_CHECKING:
    from firnline.operations.operation import Figures
    from firnline.operations.options import VerifyOptions
    from firnline.operations.verify.run import VerifyReport

OPERATION: Operation[VerifyOptions, Figures, VerifyReport] = Operation(
    None, run_verify, refuse_findings
)
