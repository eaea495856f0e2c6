"""Spark job: merge small parts of one table into large sorted ones.

    spark-submit spark_jobs/merge.py flights --run-id=… --partition='sched_dep_month=2013-12'

Credentials come from the environment of the driver, never from arguments. The arguments and the
output that all jobs share are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from firnline.operations.registry import MERGE
from firnline.spark.job import Job


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--partition", action="append", default=[], metavar="GLOB", help="may be repeated"
    )
    parser.add_argument("--max-bytes", type=_size, help="bytes to read at most, 10GiB")


def _size(text: str) -> int:
    from firnline.units import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _from_arguments(given: argparse.Namespace) -> dict[str, Any]:
    named = {"partitions": given.partition, "max_bytes": given.max_bytes}
    return {name: value for name, value in named.items() if value not in (None, [])}


JOB = Job(MERGE, arguments=_arguments, from_arguments=_from_arguments)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
