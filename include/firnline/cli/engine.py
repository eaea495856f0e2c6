"""The engine of a command's kernels: this process, or a Spark application."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from firnline.errors import EnvironmentFaultError, UsageError

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.table import Table

_MASTER = re.compile(r"local(\[.+\])?$|yarn$|(spark|sc|k8s)://.")
_KNOCK_SECONDS = 10.0


class EngineKind(StrEnum):
    """The place where kernels run."""

    LOCAL = "local"
    SPARK = "spark"


@contextmanager
def engine_for(
    operation: str, table: Table, kind: EngineKind, master: str | None, scratch: Path | None
) -> Iterator[Callable[[], Engine]]:
    """Yield an engine factory, and end the Spark application that it started.

    Args:
        operation: what the application is named by: ``firnline rewrite flights``.
        table: the table.
        kind: where kernels run.
        master: of Spark; None: that of the table's settings.
        scratch: local folder; None: the system's, or the executors'.

    Raises:
        UsageError: a master without the Spark engine, or one that Spark does not know; a scratch
            folder that cannot be used.
    """
    if kind is EngineKind.LOCAL and master is not None:
        raise UsageError(
            f"--master {master} says where Spark runs, and the engine is local",
            next_step="add --engine spark, or leave --master out",
        )
    if master is not None and _MASTER.match(master) is None:
        raise UsageError(
            f"{master!r} is not a Spark master",
            next_step="write local[*], local[2], spark://host:7077, sc://host:15002, yarn or k8s://…",
        )
    if kind is EngineKind.LOCAL and scratch is not None:
        refuse_unusable(scratch)
    from firnline.operations.local import local_engine

    with ExitStack() as stack:
        if kind is EngineKind.LOCAL:
            yield lambda: local_engine(table, scratch)
        else:
            name = f"firnline {operation} {table.settings.name}"
            yield lambda: _spark(name, table, master, scratch, stack)


def _spark(
    name: str, table: Table, master: str | None, scratch: Path | None, stack: ExitStack
) -> Engine:
    from firnline.settings.spark_conf import conf_of
    from firnline.spark.engine import SparkEngine
    from firnline.spark.session import open_session
    from firnline.store.access import StoreAccess

    place = master or table.settings.spark.conf.get("spark.master", "")
    if place.startswith(("sc://", "spark://")):
        check_reachable(place)
    remote = master if master is not None and master.startswith("sc://") else None
    with stack.enter_context(jvm_log()):
        session = open_session(
            name,
            conf_of(table.settings),
            master=None if remote else master,
            remote=remote,
        )
    stack.callback(session.stop)
    return SparkEngine(
        session,
        table.settings.root,
        StoreAccess.from_env(),
        None if scratch is None else str(scratch),
        table.ids,
        table.clock,
    )


def check_reachable(master: str) -> None:
    """Check that a Spark master or Connect server answers: Spark gives up after 1 to 10 minutes.

    Raises EnvironmentFaultError if none of its addresses answers.
    """
    port = 15002 if master.startswith("sc://") else 7077
    why = "no address"
    for address in master.partition("://")[2].partition("/")[0].split(","):
        try:
            parsed = urlsplit(f"//{address}")
            socket.create_connection((parsed.hostname, parsed.port or port), _KNOCK_SECONDS).close()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise EnvironmentFaultError(
        f"nobody answers at {master}: {why}",
        next_step="start Spark there, or correct --master or spark.master of the table's settings",
    )


@contextmanager
def jvm_log() -> Iterator[AbstractContextManager[None]]:
    """Yield a redirection to a file for Spark's log, which an error names if it is not empty.

    Processes that are started within the yielded context manager write their stderr to the file.
    """
    with tempfile.NamedTemporaryFile(prefix="firnline-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
    try:
        yield _errors_to(path)
    except BaseException as error:
        if path.stat().st_size:
            error.add_note(f"Spark's log: {path}")
        else:
            path.unlink()
        raise
    path.unlink()


@contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    # By descriptor: a JVM does not use sys.stderr.
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def refuse_unusable(scratch: Path) -> None:
    """Raise UsageError unless the folder is there and can be written to: before any group is read.

    It is not created: a mistyped path would fill another disk.
    """
    try:
        with tempfile.TemporaryFile(dir=scratch):
            pass
    except OSError as error:
        raise UsageError(
            f"--scratch {scratch} cannot be used: {error.strerror}",
            next_step="give a folder that is there and that this user can write to",
        ) from None


MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="With --engine spark: local[*], spark://host:7077 or sc://host:15002; without it "
        "spark.master of the table's settings, else local[*].",
    ),
]


EngineOption = Annotated[
    EngineKind, typer.Option("--engine", help="Read and write in this process, or by Spark.")
]


ScratchOption = Annotated[
    Path | None,
    typer.Option(
        "--scratch",
        metavar="FOLDER",
        help="Local disk to stage on, about three times the bytes of the largest group per "
        "kernel; without it $TMPDIR.",
    ),
]
