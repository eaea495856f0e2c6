"""CPU of the proof of a merge, part by part: counts, reading back, the digests.

One kernel of one thread merges 2.5 M rows in a process of its own, sorted and unsorted: as with
``merge.proof: counts``, as with ``rows`` without the arithmetic of the digests, and as with
``rows``, in turn.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from unittest.mock import patch

from benchmarks import data
from benchmarks.measure import MIB, Figures, Usage, run_json
from benchmarks.sizes import Bench

if TYPE_CHECKING:
    import pyarrow as pa

    from firnline.kernel.task import KernelResult
    from firnline.types.digests import Digest

MEMORY = 1024 * MIB
KINDS = {
    "counts": "merge.proof: counts",
    "read back": "the outputs are read back besides, nothing is computed",
    "digest": "merge.proof: rows, whose inputs state their digests",
}
_Rounds = dict[str, list[dict[str, float]]]


def compare(bench: Bench) -> list[Figures]:
    """Measure both orders; one warm-up each, then ``rounds``, every other one backwards."""
    sizes = bench.sizes
    data.make(bench.cache / "merge", sizes.merge_files, sizes.merge_rows)
    return [figures for order in ("sorted", "unsorted") for figures in _order(order, bench)]


def _order(order: str, bench: Bench) -> Iterator[Figures]:
    sizes = bench.sizes
    numbers = [bench.rounds, sizes.proof_files, sizes.merge_rows]
    given = [order, str(bench.cache / "merge"), str(bench.work), *map(str, numbers)]
    found: _Rounds = run_json([sys.executable, "-m", "benchmarks.proof", *given], {})["rounds"]
    before = found["counts"]
    for kind, rows in found.items():
        notes = {
            "CPU / counts": f"{_median(rows) / _median(found['counts']):.3f}",
            "more than the row before": _more(before, rows, found["counts"]),
        }
        usages = [Usage(row["seconds"], row["cpu"]) for row in rows]
        figures = Figures(f"{order}, {kind}", KINDS[kind], usages, dict(notes))
        print(f"  proof     {figures.name:20s} {figures.cpu:6.2f} s CPU")
        yield figures
        before = rows


def _median(rows: Sequence[Mapping[str, float]]) -> float:
    return statistics.median(row["cpu"] for row in rows)


def _more(
    before: Sequence[Mapping[str, float]],
    rows: Sequence[Mapping[str, float]],
    counts: Sequence[Mapping[str, float]],
) -> str | None:
    """Return the median of the differences within a round, as a share of the kernel that counts."""
    if rows is before:
        return None
    more = statistics.median(b["cpu"] - a["cpu"] for a, b in zip(before, rows, strict=True))
    return f"{100 * more / _median(counts):.1f} %"


# --- the measured process -------------------------------------------------------------------------


def main(order: str, folder: Path, work: Path, rounds: int, count: int, rows: int) -> None:
    """Measure in this process, and print what each round took."""
    from firnline.parquet.digests import digest_file

    files = sorted(folder.glob("*.parquet"))[:count]
    digests = {path: read[0] for path in files if (read := digest_file(path)) is not None}
    found: _Rounds = {kind: [] for kind in KINDS}
    for done in range(rounds + 1):
        for kind in [*KINDS][:: 1 if done % 2 else -1]:
            cpu, seconds = time.process_time(), time.perf_counter()
            with _without_arithmetic(digests.values(), wanted=kind == "read back"):
                result = _merge(digests, rows, work, order, kind)
            took = {
                "cpu": time.process_time() - cpu,
                "seconds": time.perf_counter() - seconds,
            }
            for part in result.parts:
                (folder.parent / part.key).unlink()
            if done:
                found[kind].append(took)
    print(json.dumps({"rounds": found}))


def _merge(
    digests: Mapping[Path, object], rows: int, work: Path, order: str, kind: str
) -> KernelResult:
    """Merge the files of the digests, each of so many rows."""
    from firnline.clock import SystemClock
    from firnline.ids import SystemIds
    from firnline.kernel.merge import merge_group
    from firnline.kernel.task import KernelInput, KernelTask
    from firnline.store.client import open_store
    from firnline.types.order import SortKey

    proof: Literal["rows", "counts"] = "counts" if kind == "counts" else "rows"
    folder = next(iter(digests)).parent
    task = KernelTask(
        group=0,
        partition="",
        inputs=tuple(
            KernelInput(
                key=f"{folder.name}/{path.name}",
                bytes=path.stat().st_size,
                rows=rows,
                digest=str(digest),
            )
            for path, digest in digests.items()
        ),
        columns=data.COLUMNS,
        sort_by=tuple(SortKey(name) for name in data.SORT) if order == "sorted" else (),
        stats_columns=data.SORT,
        data_prefix=f"{folder.name}/out/",
        memory=MEMORY,
        threads=1,
        row_group_rows=1_048_576,
        compression_level=3,
        proof=proof,
    )
    store = open_store(f"file://{folder}")
    result = merge_group(task, store, work, SystemIds(), SystemClock())
    assert result.error is None, result.error
    assert result.rows_in == sum(part.rows for part in result.parts) == rows * len(digests)
    return result


@contextmanager
def _without_arithmetic(digests: Iterable[Digest], *, wanted: bool) -> Iterator[None]:
    """Let a proof read all rows, and take their digest for that of the inputs."""
    from firnline.parquet import digests as reader
    from firnline.types.digests import total
    from firnline.types.rowhash import RowDigest

    class Counted(RowDigest):
        digest = total(digests)

        def add(self, batch: pa.RecordBatch) -> None:
            self.rows += batch.num_rows

    with patch.object(reader, "RowDigest", Counted if wanted else RowDigest):
        yield


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:7]))
