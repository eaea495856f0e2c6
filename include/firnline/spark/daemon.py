"""PySpark's daemon of Python workers, started faster. For masters on this machine only.

Spark puts a zip of pyspark before the installed one, and Python cannot store compiled code next to
a zip: every start compiles pyspark again, 0.6 s. The kernel's imports are done once, before workers
are forked. They start no threads: duckdb and obstore do so on first use.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def prefer_installed() -> None:
    """Use the installed pyspark, if there is one, instead of Spark's zip."""
    kept = sys.path.copy()
    sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
    if find_spec("pyspark") is None:
        sys.path[:] = kept


def quietly(work: Callable[P, T]) -> Callable[P, T]:
    """Return a worker that ends without a traceback if the driver, to which it answers, is gone."""

    def worker(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return work(*arguments, **named)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)  # as pyspark does, which prints it first

    return worker


def main() -> None:
    """Run the daemon; Spark calls it as ``python -m firnline.spark.daemon``."""
    prefer_installed()
    from pyspark import daemon

    import firnline.spark.worker  # noqa: F401 -- for the workers that are forked from here

    # A worker collects garbage after every task: 30 ms if it looks through all of these modules.
    gc.freeze()
    daemon.worker = quietly(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
