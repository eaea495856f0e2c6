"""Spark job: rewrite partitions of one table, by a filter or by a query.

    spark-submit spark_jobs/rewrite.py flights --run-id=… --options='{"where": "carrier != 1"}'

The options are those of ``firnline rewrite``; what else every job takes and says:
``firnline.spark.job``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from firnline.spark.job import Job, Operation

if TYPE_CHECKING:
    from firnline.operations.rewrite.run import RewriteOptions


def _load() -> Operation[RewriteOptions]:
    from firnline.operations.rewrite.run import RewriteOptions, preview, run_rewrite

    return Operation(RewriteOptions, preview, run_rewrite)


JOB = Job("rewrite", "Rewrite partitions of one table, by a filter or by a query.", _load)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
