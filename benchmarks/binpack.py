"""Iceberg's rewrite_data_files on files of a table, in the Spark of ``tools.sparkreaders``.

python benchmarks/binpack.py FOLDER THREADS BYTES      the process that is measured, in that Spark

It has nothing but PySpark, so this module imports no other of the repository but in ``prepare``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

CATALOG, NAME = "lake", "bench.t"


def prepare(folder: Path, files: Sequence[Path], level: int) -> None:
    """Make a table in a SQLite catalog of the folder, and take the files into it as they are."""
    import pyarrow.parquet as pq
    from pyiceberg.catalog import load_catalog

    folder.mkdir()
    catalog = load_catalog(CATALOG, type="sql", uri=f"sqlite:///{folder}/catalog.db")
    catalog.create_namespace("bench")
    codec = {
        "write.parquet.compression-codec": "zstd",
        "write.parquet.compression-level": str(level),
    }
    schema, place = pq.read_schema(files[0]), f"file://{folder}/t"
    table = catalog.create_table(NAME, schema, location=place, properties=codec)
    table.add_files([f"file://{path}" for path in files])


def command(folder: Path, files: Sequence[Path], groups: int, threads: int) -> list[str]:
    """Return the process that rewrites them.

    Iceberg groups files by their size: a group is to hold as many as those of the others, which
    are of much the same size, and to become one file.
    """
    from tools import sparkreaders

    each = len(files) // groups
    most = max(path.stat().st_size for path in files)
    # Without the folder of the program, whose modules have names of Python's own.
    program = [str(sparkreaders.ensure()), "-P", __file__, str(folder), str(threads)]
    return [*program, str(each * most + most // 2), sparkreaders.jars()]


def rewrite(folder: str, threads: str, most: str, jars: str) -> None:
    """Rewrite all files of the table, in groups of so many bytes."""
    from pyspark.sql import SparkSession

    catalog = f"spark.sql.catalog.{CATALOG}"
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    session = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.driver.memory", "4g")
        .config("spark.jars", jars)
        .config("spark.log.level", "OFF")
        .config("spark.sql.extensions", extensions)
        .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
        .config(f"{catalog}.catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
        .config(f"{catalog}.uri", f"jdbc:sqlite:{folder}/catalog.db")
        .config(f"{catalog}.warehouse", f"file://{folder}")
        .getOrCreate()
    )
    options = {
        "rewrite-all": "true",
        "max-file-group-size-bytes": most,
        "target-file-size-bytes": most,
    }
    listed = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    session.sql(
        f"CALL {CATALOG}.system.rewrite_data_files(table => '{NAME}', strategy => 'binpack',"
        f" options => map({listed}))"
    ).collect()
    session.stop()


if __name__ == "__main__":
    rewrite(*sys.argv[1:])
