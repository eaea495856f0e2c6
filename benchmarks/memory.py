"""Peak memory of one kernel whose group is several times its ``kernel_memory``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks import data
from benchmarks.measure import MIB, Figures, watched
from benchmarks.sizes import Bench

OUTPUTS = 6
_DIGESTS = "digests.json"
"""In the scratch folder: the digest of the rows of each file."""


def measure(bench: Bench, *, sort: bool = True, cluster: str = "") -> Figures:
    """Merge 3 GiB in one kernel; the peak is what the process grew by since before the task.

    Args:
        bench: where the data are made, and how many.
        sort: by (event, ts).
        cluster: a method of ``cluster_by``, over user_id and ts: six outputs.

    Raises:
        RuntimeError: the merge failed, or its outputs hold other rows.
    """
    cache, work, memory = bench.cache, bench.work, bench.sizes.kernel_memory
    files: list[Path] = []
    total = 0
    while total < bench.sizes.memory_group:
        files = data.make(cache / "memory", len(files) + 8, bench.sizes.memory_rows)
        total = sum(path.stat().st_size for path in files)
    what = f"{total / 2**30:.2f} GiB, kernel_memory {memory // MIB} MiB, 1 thread"
    name = f"{cluster}, {OUTPUTS} outputs" if cluster else "sorted" if sort else "unsorted"
    figures = Figures(name, what)
    (work / _DIGESTS).write_text(json.dumps({path.name: _digest(path) for path in files}))
    rows = bench.sizes.memory_rows
    asked = [str(cache / "memory"), str(work), str(sort), cluster]
    asked += [str(number) for number in (len(files), rows, memory)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.memory", *asked],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    before = int(process.stdout.readline())
    with watched(process.pid) as usage:
        process.stdin.write("go\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
    process.communicate()
    if answer["error"] or {answer["rows"], answer["rows_out"]} != {len(files) * rows}:
        raise RuntimeError(f"{name}: {answer}")
    usage.peak_bytes -= before
    figures.rounds.append(usage)
    figures.notes = {
        "limit_mib": memory // MIB,
        "of_kernel_memory": round(usage.peak_bytes / memory, 2),
        **answer,
    }
    print(f"  memory    {figures.name:20s} {usage.seconds:6.1f} s {figures.peak_mib:.0f} MiB")
    return figures


def _digest(path: Path) -> str:
    """Return what the marker of the part would state, had firnline written it."""
    from firnline.parquet.digests import digest_file

    found = digest_file(path)
    assert found is not None
    return str(found[0])


def main(
    folder: Path, work: Path, sizes: tuple[int, int, int], *, sort: bool, cluster: str
) -> None:
    """The measured process: says what it has, waits, merges, says what came of it."""
    from benchmarks.measure import _resident
    from firnline.clock import SystemClock
    from firnline.ids import SystemIds
    from firnline.kernel.merge import merge_group
    from firnline.kernel.task import Cluster, KernelInput, KernelTask
    from firnline.store.client import open_store
    from firnline.types.order import SortKey

    prefix, (files, rows, memory) = folder.name, sizes
    digests: dict[str, str] = json.loads((work / _DIGESTS).read_text())
    task = KernelTask(
        group=0,
        partition="",
        inputs=tuple(
            KernelInput(
                key=f"{prefix}/{path.name}",
                bytes=path.stat().st_size,
                rows=rows,
                digest=digests[path.name],
            )
            for path in sorted(folder.glob("*.parquet"))[:files]
        ),
        columns=data.COLUMNS,
        sort_by=tuple(SortKey(name) for name in data.SORT) if sort else (),
        stats_columns=data.SORT,
        data_prefix=f"{prefix}/out/",
        memory=memory,
        threads=1,
        row_group_rows=1_048_576,
        compression_level=3,
        cluster=msgspec.convert(
            {"method": cluster, "columns": ("user_id", "ts"), "outputs": OUTPUTS}, Cluster
        )
        if cluster
        else None,
    )
    store = open_store(f"file://{folder}")
    print(_resident(os.getpid()), flush=True)
    sys.stdin.readline()
    result = merge_group(task, store, work, SystemIds(), SystemClock())
    answer = {"error": result.error, "rows": result.rows_in}
    answer["bytes_out"] = sum(part.bytes for part in result.parts)
    answer["rows_out"] = sum(part.rows for part in result.parts)
    answer["files_out"] = len(result.parts)
    for part in result.parts:
        (folder.parent / part.key).unlink()
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        (int(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])),
        sort=sys.argv[3] == "True",
        cluster=sys.argv[4],
    )
