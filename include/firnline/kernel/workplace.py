"""Keep a worker's database, and the name of its scratch folder, from one group to the next.

To open a DuckDB costs as much as to merge some small parts. So a worker opens one and gives each
group a connection of its own to it, with which its temporary tables end. After an error, or for a
group with other limits, it opens another one.

Between two groups nothing is on disk: the folder is made, locked and deleted for each of them that
needs one, and the database holds no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from firnline.clock import Clock
from firnline.cores import Cores
from firnline.ids import Ids
from firnline.kernel.duckdb import ROW_HASH, SPILL, open_duckdb
from firnline.kernel.staging import new_folder, remove_abandoned, scratch_folder


@dataclass(slots=True)
class Workplace:
    """The folder and the database of one worker; one group at a time.

    Args:
        scratch: local folder for this and other workers; created if missing.
        ids: source of the folder's name.
        clock: source of its date.
        cores: lends idle cores to a group that can use them.
    """

    scratch: Path
    ids: Ids
    clock: Clock
    cores: Cores = field(default_factory=Cores)
    _folder: Path | None = None
    _limits: tuple[int, int] | None = None
    _open: ExitStack = field(default_factory=ExitStack)
    _database: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder for one group, which is deleted at the end.

        Raises ScratchFullError: see ``staging.scratch_folder``.
        """
        if self._folder is None:
            self._folder = new_folder(self.scratch, self.ids, self.clock)
            remove_abandoned(self.scratch)
        with scratch_folder(self._folder):
            yield self._folder

    @contextmanager
    def on_demand(self) -> Iterator[Callable[[], Path]]:
        """Yield what makes ``folder`` when it is called first, and returns it from then on."""
        with ExitStack() as stack:
            made: list[Path] = []

            def folder() -> Path:
                if not made:
                    made.append(stack.enter_context(self.folder()))
                return made[0]

            yield folder

    @contextmanager
    def database(self, memory: int, threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection for one group, inside of ``folder``.

        Args:
            memory: ``kernel_memory``, bytes.
            threads: worker threads.
        """
        assert self._folder is not None
        (self._folder / SPILL).mkdir(exist_ok=True)
        if self._limits != (memory, threads):
            self.close()
        if self._database is None:
            self._database = self._open.enter_context(open_duckdb(self._folder, memory, threads))
            self._limits = memory, threads
        try:
            with self._database.cursor() as connection:
                # Those of the database: an attempt with less memory may have left fewer.
                connection.execute(f"SET threads = {threads}")
                yield connection
                with suppress(duckdb.InvalidInputException):  # not every group makes it
                    connection.remove_function(ROW_HASH)
        except BaseException:
            self.close()  # whatever has happened to it, the next group begins anew
            raise

    def close(self) -> None:
        """Close the database."""
        self._database = self._limits = None
        self._open.close()
