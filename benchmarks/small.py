"""What a run costs beyond its rows: three small parts in a cold process, and nothing to do."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks import data
from benchmarks.measure import Figures, run_process
from benchmarks.merge import lay_out
from benchmarks.sizes import Bench

JOB = Path(__file__).parents[1] / "spark_jobs" / "merge.py"
EMPTY = """
from pyspark.sql import SparkSession
SparkSession.builder.master("local[2]").getOrCreate().stop()
"""
QUERY = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").getOrCreate()
session.range(1).collect()
session.stop()
"""


def compare(bench: Bench) -> list[Figures]:
    """Cold processes, in turn; the last contender finds nothing to merge."""
    from firnline.spark.archive import make_archive

    make_archive()
    files = data.make(bench.cache / "small", files=3, rows=bench.sizes.small_rows)
    work = bench.work
    settings = work / "tables.yaml"
    table = work / "table"
    settings.write_text(
        "tables:\n  small:\n"
        f"    root: file://{table}\n"
        "    partition: p=(?P<p>[0-9]+)\n"
        "    sort_by: [event, ts]\n"
        "    merge: {min_inputs: 2}\n"
    )
    job = [sys.executable, str(JOB), "small", f"--settings={settings}", "--master=local[2]"]
    plain = {"FIRNLINE_CACHE": str(work / "no-archive")}
    found = {
        "empty": Figures("empty application", "Spark's defaults: a session, started and stopped"),
        "query": Figures("application with a query", "Spark's defaults, and range(1).collect()"),
        "merge": Figures("firnline", "plan, merge of 3 parts, commit; with the class archive"),
        "plain": Figures("firnline, no archive", "the same without the class archive"),
        "nothing": Figures("firnline, nothing to do", "the same job: no JVM starts"),
    }
    for _ in range(bench.rounds):
        for name, figures in found.items():
            if name in ("empty", "query"):
                command = [sys.executable, "-c", EMPTY if name == "empty" else QUERY]
                figures.rounds.append(run_process(command))
            else:
                if name != "nothing":
                    shutil.rmtree(table, ignore_errors=True)
                    lay_out(f"file://{table}", None, files, 1)
                env = {"PYTHONDONTWRITEBYTECODE": "", **(plain if name == "plain" else {})}
                figures.rounds.append(run_process(job, env))
            last = figures.rounds[-1]
            print(f"  small     {figures.name:24s} {last.seconds:6.2f} s", flush=True)
    return list(found.values())
