"""Spark job: check one table, and read the footers of all its parts in Spark tasks.

    spark-submit spark_jobs/verify.py flights --run-id=… --options='{"deep": true}'

The report is always printed; findings other than notes end the job with exit code 1. The arguments
and the output that all jobs share are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from firnline.operations.operation import Loaded, Progress
from firnline.operations.registry import VERIFY
from firnline.spark.job import Job

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.options import VerifyOptions
    from firnline.operations.verify.run import VerifyReport
    from firnline.table import Table


def _load() -> Loaded[VerifyOptions]:
    return Loaded(None, _verify)


def _verify(
    table: Table,
    engine: Callable[[], Engine],
    options: VerifyOptions,
    _: RunIdentity,
    _progress: Progress,
) -> VerifyReport:
    from firnline.operations.verify.run import refuse_findings, run_verify
    from firnline.spark.footers import footers_by

    report = run_verify(table, options, footers_by(engine))
    refuse_findings(report)
    return report


JOB = Job(VERIFY, _load)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
