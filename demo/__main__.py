"""The demo: a year of flights as thousands of small parts, kept in shape by a real Airflow.

python -m demo       run it (`make demo`); STORE=s3 for a real S3 server, SPARK=cluster for a
                     Spark cluster, which is a master and two workers
python -m demo up    its Airflow and its table until Ctrl-C (`make up`)
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from types import FrameType

import pyarrow as pa

from demo.airflow import DAG_ID, add_connections, demo_stack, run_merge
from demo.left_overs import still_left
from demo.life import chronicle, live_on, look
from demo.place import FOLDER, SPARKS, STORES, TABLE, Place, made_store, prepared
from demo.queries import Content, content_of, warm_up
from demo.report import State, check_same, comparison, measure
from demo.screen import Screen
from demo.writers import WRITERS, append_all
from firnline.errors import EnvironmentFaultError, FirnlineError, UsageError
from firnline.flights import cut_hours, flights_file, read_flights
from firnline.types.arrow import from_arrow
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import database_of
from tools.spark_cluster import HOSTS, SparkCluster

_INTERRUPTED = threading.Event()
_STORE_NAMES = {"file": "local files", "s3": "a local S3 server"}


def demo(screen: Screen, place: Place) -> None:
    """Run the whole demo in an empty place. Raises FirnlineError."""
    began = time.monotonic()
    flights, source = _load(screen)
    _append(screen, place, flights)
    before = _measure(screen, place, "before")
    life = [look(place.open(), "appends")]
    with ExitStack() as running:
        with screen.step("airflow", "scheduler, DAG processor and API server are starting") as step:
            database = database_of(place.airflow_home)
            stack = running.enter_context(demo_stack(place, database))
            add_connections(stack.api, place)
            step.done = "scheduler, DAG processor and API server run; pools are made"
        screen.line("database", database.words)
        screen.line("spark", _spark(place))
        _merge(screen, place, stack, before.parts)
        after = _measure(screen, place, "after")
        check_same(source, before, after)
        life += [look(place.open(), "merge"), *live_on(screen, place, stack, flights)]
        with screen.step("airflow", "ending") as step:
            running.close()
            step.done = "ended, with all its processes"
    if place.cluster is not None:
        screen.line("spark", _applications(place.cluster))
    place.write_env_file()
    screen.line("in all", "", f"{time.monotonic() - began:6.1f} s")
    for grid in (comparison(before, after), chronicle(life)):
        screen.console.print()
        screen.show(grid)
    screen.console.print()
    _last_words(screen, place, source)


def _load(screen: Screen) -> tuple[pa.Table, Content]:
    with screen.step("flights", "reading the CSV") as step:
        flights = read_flights(flights_file())
        source = content_of(flights)
        warm_up(from_arrow(flights.schema))
        hours = len(cut_hours(flights))
        step.done = f"{flights.num_rows:,} flights of 2013 that were to depart in {hours:,} hours"
    return flights, source


def _append(screen: Screen, place: Place, flights: pa.Table) -> None:
    total = len(cut_hours(flights))
    with screen.step("appends", "one per hour") as step:

        def show(done: int) -> None:
            step.update(f"{done:,} of {total:,}", done, total)

        append_all(place, flights, show)
        step.done = f"{total:,} by {WRITERS} writers, one per hour, into partitions by month"


def _measure(screen: Screen, place: Place, name: str) -> State:
    with screen.step(name, "two queries, then all rows for the checksum") as step:
        state = measure(place.open)
        first, second = state.answers
        step.done = f"two queries: {first.seconds:.2f} s and {second.seconds:.2f} s; all rows read"
    return state


def _merge(screen: Screen, place: Place, stack: AirflowStack, parts: int) -> None:
    table = place.open()
    with screen.step("merge", f"{DAG_ID} is triggered") as step:

        def show(states: str, merged: int) -> None:
            step.update(f"{merged:,} of {parts:,} parts; {states}", merged, parts)

        seconds = run_merge(stack, table, show)
        tasks = ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
        step.done = f"{DAG_ID} ended well: {tasks}"


def _spark(place: Place) -> str:
    if place.cluster is None:
        return "in the Airflow task, on this machine's cores"
    return f"a master and {len(HOSTS)} workers, {place.cluster.master}"


def _applications(cluster: SparkCluster) -> str:
    ran = cluster.ran()
    executors = Counter(host for hosts in ran.values() for host in hosts)
    each = ", ".join(f"{count} on {host}" for host, count in sorted(executors.items()))
    return f"{len(ran)} applications on the cluster; executors: {each}"


def _last_words(screen: Screen, place: Place, source: Content) -> None:
    say = screen.console.print
    say(
        f"[bold green]No row changed by the merge:[/] {source.rows:,} rows, checksum over all "
        f"columns\n{source.checksum:x}, the same in the CSV and in the table before and after. "
        "After TTL,\nrewrite and clean-up exactly the rows that had to go are gone."
    )
    env = (
        place.env_file.relative_to(REPO) if place.env_file.is_relative_to(REPO) else place.env_file
    )
    look = f". {env}; .venv/bin/firnline parts {TABLE}"
    if place.server is not None:
        look += "   (while `make up` runs)"
    say()
    for name, command in (
        ("Airflow's page", "make up"),
        ("the table", look),
        ("clean away", "make clean-demo"),
    ):
        say(f"{name:<16}{command}", soft_wrap=True)


def _look(place: Place) -> str:
    """A command that shows the table, for a shell in the repository's folder."""
    return f". {place.env_file.relative_to(REPO)}; .venv/bin/firnline parts {TABLE}"


# --- `make up` ------------------------------------------------------------------------------------


def up(screen: Screen, place: Place) -> None:
    """Run the Airflow of the demo until Ctrl-C. Raises FirnlineError."""
    with ExitStack() as running:
        with screen.step("airflow", "scheduler, DAG processor and API server are starting") as step:
            database = database_of(place.airflow_home)
            stack = running.enter_context(demo_stack(place, database, schedules=True))
            add_connections(stack.api, place)
            place.write_env_file()
            step.done = "scheduler, DAG processor and API server run"
        screen.line("database", database.words)
        screen.line("spark", _spark(place))
        screen.line("page", f"{stack.url}/dags/{DAG_ID}")
        screen.line("table", f"{TABLE} on {_STORE_NAMES[place.store]}: {_look(place)}")
        screen.line("logs", str((stack.home / "logs").relative_to(REPO)))
        screen.line("end it", "Ctrl-C")
        while (dead := stack.dead()) is None:
            time.sleep(1)
        raise EnvironmentFaultError(
            f"Airflow's {dead} ended by itself", next_step=f"read {stack.programs.logs}"
        )


# --- the process ----------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """0; 1 or 2 after one sentence; 130 after Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    screen = Screen()
    try:
        _run(screen, arguments)
        return 0
    except (KeyboardInterrupt, RuntimeError):
        # DuckDB makes a RuntimeError of it.
        if not _INTERRUPTED.is_set():
            raise
        screen.console.print("ended, and nothing is left running")
        return 130
    except FirnlineError as error:
        screen.fail(str(error))
        return error.exit_code


def _run(screen: Screen, arguments: list[str]) -> None:
    looking = arguments == ["up"]
    if arguments and not looking:
        raise UsageError(f"unknown: {' '.join(arguments)}", next_step="see `make`")
    store = made_store(FOLDER) if looking else os.environ.get("STORE", STORES[0])
    if store is None:
        raise UsageError("there is no demo to look at yet", next_step="run `make demo` first")
    if store not in STORES:
        raise UsageError(f"STORE={store} is not a store", next_step=f"use {' or '.join(STORES)}")
    spark = os.environ.get("SPARK", SPARKS[0])
    if spark not in SPARKS:
        raise UsageError(f"SPARK={spark} is no Spark", next_step=f"use {' or '.join(SPARKS)}")
    with prepared(FOLDER, store, fresh=not looking, spark=spark) as place:
        (up if looking else demo)(screen, place)
    if left := still_left(FOLDER):
        raise EnvironmentFaultError(
            f"processes are left: {', '.join(f'{p.pid} {p.name()}' for p in left)}",
            next_step="end them and report this",
        )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _INTERRUPTED.set()
    # Once: what ends the others must not be ended itself.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
