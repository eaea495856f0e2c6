"""Kernels that write other rows than they have read, and the proof that has to see it.

Only worlds of ``FAULTY`` seeds have them. Their parts state digests, and their tables have columns
of floats and texts whose values follow from the number of the row. The proof is the product's own
(``firnline.kernel.proof``), over rows instead of files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firnline.errors import FirnlineError, RowsDifferError
from firnline.kernel.inputs import Inputs, Staged
from firnline.kernel.proof import Proof
from firnline.kernel.task import KernelTask
from firnline.state.snapshot import Snapshot
from firnline.types.digests import Digest
from firnline.types.rowhash import digest_of
from simulation.world import KEY_STEP, Actor, Violation

if TYPE_CHECKING:
    from simulation.stage import Stage

FAULTY = range(17_000, 18_000)
"""Seeds of worlds whose kernels make mistakes."""
WEIGHTS = {"append": 3.0, "merge": 3.0}
COLUMNS = {"z": "DOUBLE", "w": "DOUBLE", "m": "VARCHAR"}
_PLANTED = 0.3
"""Probability that a task writes something else than it should."""
Row = dict[str, Any]


def kind_of(seed: int) -> str:
    """Return the kind of table of such a seed."""
    return ("proven", "proven slices", "proven keys")[seed % 3]


def values_of(k: int) -> dict[str, Any]:
    """Return the values of a row in the columns that only such tables have."""
    n = k // KEY_STEP + k % KEY_STEP
    return {
        "z": (0.0, -0.0, n / 7, math.nan, None)[n % 5],
        "w": None if n % 3 == 0 else n * 1.5,
        "m": None if n % 4 == 1 else f"text {n % 6}",
    }


# --- mistakes -------------------------------------------------------------------------------------


def _changed(rows: Sequence[Row], column: str, when: Callable[[Any], bool], to: Any) -> list[Row]:
    """Change the first value of a column that fulfils a condition."""
    place = next((n for n, row in enumerate(rows) if when(row[column])), None)
    if place is None:
        return list(rows)
    return [*rows[:place], {**rows[place], column: to}, *rows[place + 1 :]]


def _swapped(row: Row) -> Row:
    return {**row, "z": row["w"], "w": row["z"]}


MISTAKES: dict[str, Callable[[Sequence[Row]], list[Row]]] = {
    "a value is changed": lambda rows: _changed(rows, "m", lambda m: m is not None, "other"),
    "a value is lost": lambda rows: _changed(rows, "w", lambda w: w is not None, None),
    "a null is filled": lambda rows: _changed(rows, "m", lambda m: m is None, ""),
    "a zero changes its sign": lambda rows: _changed(rows, "z", _is_zero, -0.0),
    "two columns are swapped": lambda rows: list(map(_swapped, rows)),
    "a row is doubled and another lost": lambda rows: [*rows[1:], rows[-1]],
}


def _is_zero(value: float | None) -> bool:
    return value == 0.0 and math.copysign(1, value) > 0


# --- the kernel -----------------------------------------------------------------------------------


@dataclass
class RowProof(Proof):
    """The proof of a task whose files are lists of rows."""

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    held: dict[str, Sequence[Row]] = field(default_factory=dict)
    """Rows by path, or by what takes the place of a query."""

    def _file(self, path: Path, _seen: object = None, cores: object = None) -> Digest:  # noqa: ARG002 -- as in Proof
        return self._digest(self.held[str(path)])

    def _input(self, path: Path, *_: object) -> Digest:
        return self._file(path)

    def _query(self, rows: str) -> tuple[Digest, int]:
        return self._digest(self.held[rows]), len(self.held[rows])

    def _digest(self, rows: Sequence[Row]) -> Digest:
        return digest_of(pa.Table.from_pylist(list(rows), schema=self.schema))


@dataclass
class Mistakes:
    """The mistakes of an actor's kernels."""

    actor: Actor
    count: Callable[[Iterable[str]], None]
    """Counts what happened."""
    parts: set[str] = field(default_factory=set)
    """Parts that were uploaded with wrong rows: of a slice only the driver can know."""
    made: int = 0
    _tasks: int = 0

    def prove(
        self,
        task: KernelTask,
        schema: pa.Schema,
        read: Sequence[Sequence[Row]],
        outputs: list[list[Row]],
    ) -> tuple[list[Digest | None], Digest | None, bool]:
        """Prove the outputs of a task, of which one may become wrong here.

        Args:
            task: the group.
            schema: the columns of the table.
            read: rows of each of its inputs, those of its slice.
            outputs: rows that the kernel is to write.

        Returns the digests of the outputs, that of the task, and True if an output is wrong.
        """
        kept = {id(row) for rows in outputs for row in rows}
        gone = [row for rows in read for row in rows if id(row) not in kept]
        wrong = self._plant(outputs)
        paths = {Path(f"{n}.parquet"): rows for n, rows in enumerate(read)}
        proof = RowProof(task, Path(), _unused, lambda: None, schema=schema)
        proof.held = {str(path): rows for path, rows in paths.items()}
        proof.held |= {"all": [row for rows in read for row in rows], "gone": gone}
        staged = Staged(tuple(paths), frozenset(), None, {}, is_whole=True)
        inputs = Inputs((staged,), {p: len(rows) for p, rows in paths.items()}, (), {})
        try:
            proof.begin(inputs, lambda _: "all", "gone", len(gone))
            digests = []
            for n, rows in enumerate(outputs):
                proof.held[f"output{n}"] = rows
                digests.append(proof.output(Path(f"output{n}"), None))
            digest = proof.end()
        except RowsDifferError as error:
            if not wrong:
                raise Violation(f"right rows fail their proof: {error}") from error
            raise
        if wrong and task.slice is None:
            raise Violation(f"{wrong}, and the proof of the group does not see it")
        return digests, digest, bool(wrong)

    def _plant(self, outputs: list[list[Row]]) -> str:
        """Make a mistake in an output, or none; return its name."""
        self._tasks += 1
        chance, number = self.actor.world.chance, self.actor.number
        if not outputs or not chance.happens("mistake", number, self._tasks, _PLANTED):
            return ""
        r = chance.stream(number, self._tasks, 4760)
        name, place = r.choice(list(MISTAKES)), r.randrange(len(outputs))
        wrong = MISTAKES[name](outputs[place])
        if _same(wrong, outputs[place]):
            return ""
        outputs[place][:] = wrong
        self.made += 1
        self.count([f"mistake: {name}"])
        self.actor.tell(f"MAKES A MISTAKE: {name}")
        return name


def _unused(_path: Path, _rows: str) -> int:
    raise AssertionError("no query is run over rows")


def _same(one: Sequence[Row], other: Sequence[Row]) -> bool:
    """Return True if rows are the same in the same order; by text, which tells zeros apart."""
    return list(map(repr, one)) == list(map(repr, other))


# --- what may never be seen -----------------------------------------------------------------------


def check_values(parts: Mapping[str, Iterable[Row]], snapshot: Snapshot) -> None:
    """Compare the values of live parts with those of their rows. Raises Violation."""
    for path in snapshot.live:
        for row in parts[path]:
            seen = {name: row.get(name) for name in COLUMNS}
            if repr(seen) != repr(values_of(row["k"])):
                raise Violation(f"row {row['k']} of {path} has other values than were written")


def check_end(stage: Stage, error: FirnlineError | None) -> None:
    """Check what an operation leaves behind that has ended by itself.

    Where the store fails, objects may stay: the sweep deletes them.

    Raises Violation: a part with wrong rows is left, or right rows were refused.
    """
    found = stage.mistakes
    if error is not None and "their proof" in str(error) and not found.made:
        raise Violation(f"right rows fail their proof: {error}")
    left = found.parts & stage.world.objects.keys()
    if left and not stage.world.mix.fault:
        raise Violation(f"{min(left)} has wrong rows and stays, though its group has failed")
