"""Run in the Spark of ``tools.sparkreaders``: asks SQL statements, one session for all of them.

    python spark_program.py REQUEST ANSWER

REQUEST is JSON with ``conf`` and ``statements``; ANSWER gets a pickled list: rows as dictionaries,
or the text of an error.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def plain(value: Any) -> Any:
    """Return a value of Spark as Arrow's ``to_pylist`` gives it."""
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def ask(spark: SparkSession, statement: str) -> Any:
    try:
        rows = spark.sql(statement).collect()
    except Exception as error:  # noqa: BLE001 - whatever an engine says is the answer
        return str(error)
    found = [row.asDict(recursive=True) for row in rows]
    return [{name: plain(value) for name, value in row.items()} for row in found]


def main(request: str, answer: str) -> None:
    asked = json.loads(Path(request).read_text())
    builder = SparkSession.builder.master("local[2]")
    for name, value in asked["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found = [ask(spark, statement) for statement in asked["statements"]]
    Path(answer).write_bytes(pickle.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
