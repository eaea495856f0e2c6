"""Spark job: import the new files of folders into one table.

    spark-submit spark_jobs/import_files.py flights --run-id=… --options='{"skip_bad": true}'

The folders are those of the table's settings (`import.source`), or `source` of the options. The
driver reads footers and has the store copy what can be a part as it is; executors read the other
files and write their rows. The arguments and the output that all jobs share are described in
``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import IMPORT
from firnline.spark.job import Job

JOB = Job(IMPORT)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
