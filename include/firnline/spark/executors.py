"""The Python packages that firnline's code imports on executors: one list, for check and archive.

A test follows the imports of that code and holds the list to them. Imported on executors before
anything else is: it needs Python alone.
"""

from __future__ import annotations

ALWAYS = ("duckdb", "msgspec", "obstore", "pyarrow", "tenacity")
"""Packages that every kernel imports; each has one module of its name."""
CHAIN = "boto3"
"""Package that gets credentials from the default AWS chain."""
SPLITTING = "numpy"
"""Package by which rows are split by partition, or hashed: also for the proof of a merge."""
READING = "fsspec"
"""Package by which DuckDB reads parts in ranges: for comparisons of rows."""
SOURCE = ("pydantic", "pyyaml")
"""Packages that the data source ``format("firnline")`` needs there besides all of these."""
