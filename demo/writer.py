"""One of several processes that append flights, hour by hour.

    python -m demo.writer FLIGHTS.arrow NUMBER WRITERS

Writes an empty line for each append that is done. What it appends to stands in its environment
(``Place.env``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from demo.place import TABLE
from firnline.appends.append import Appender
from firnline.errors import FirnlineError
from firnline.flights import cut_hours
from firnline.settings.load import load_settings
from firnline.store.access import StoreAccess
from firnline.table import open_table
from firnline.types.arrow import from_arrow


def append_hours(flights: pa.Table, number: int, writers: int) -> None:
    """Append every hour whose turn it is; see ``Appender.append`` for what it raises."""
    table = open_table(load_settings().table(TABLE), StoreAccess.from_env())
    # Every writer knows the columns; asking the table would read thousands of log files.
    appender = Appender(table, writer=f"demo-{number}", known_schema=from_arrow(flights.schema))
    for hour in cut_hours(flights)[number::writers]:
        appender.append(hour)
        sys.stdout.write("\n")
        sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """0, or 1 after one sentence on standard error."""
    path, number, writers = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    try:
        with pa.memory_map(str(path)) as file:
            append_hours(pa.ipc.open_file(file).read_all(), number, writers)
    except FirnlineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except BrokenPipeError:
        return 1  # the process that started this one is gone
    return 0


if __name__ == "__main__":
    # Two cores are shared by several of these.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    sys.exit(main(sys.argv[1:]))
