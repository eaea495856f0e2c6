r"""Spark job: erase every row of one table that has one of the given keys.

    FIRNLINE_JOB_OPTIONS='{"columns": ["user"], "keys": [["u-1"]]}' \
        spark-submit spark_jobs/erase.py users --run-id=…

The options are those of ``firnline erase``. Keys stand in the environment or in a file, never in
an argument: argument lists are for everybody to read. What else every job takes and says:
``firnline.spark.job``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from firnline.spark.job import Job, Operation

if TYPE_CHECKING:
    from firnline.operations.erase.run import EraseOptions


def _load() -> Operation[EraseOptions]:
    from firnline.operations.erase.run import EraseOptions, preview, run_erase

    return Operation(EraseOptions, preview, run_erase)


JOB = Job("erase", "Erase every row of one table that has one of the given keys.", _load)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
