"""What a kernel takes beside DuckDB, in a process of its own: the peak of this one is long past."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from firnline.kernel.faults import kernel_fault

_STAGE = """
import sys
from pathlib import Path

from firnline.kernel.duckdb import never
from firnline.kernel.task import KernelInput
from firnline.kernel.staging import stage
from firnline.store.client import open_store
from tools.memory import peak_mib

root, scratch = Path(sys.argv[1]), Path(sys.argv[2])
names = sorted(path.name for path in root.iterdir())
store = open_store(f"file://{root}")
inputs = tuple(KernelInput(key=f"table/{name}", bytes=1, rows=None) for name in names)
stage(inputs[:1], store, scratch, never)  # what is loaded at the first use
before = peak_mib()
stage(inputs, store, scratch, never)
print(peak_mib() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_staging_takes_little_memory_however_large_the_inputs_are(tmp_path: Path) -> None:
    root, scratch = tmp_path / "table", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    for number in range(12):
        with (root / f"{number:02d}").open("wb") as file:
            file.truncate(32 * 2**20)
    done = subprocess.run(
        [sys.executable, "-c", _STAGE, str(root), str(scratch)],
        check=True,
        capture_output=True,
        text=True,
    )
    # Half the smallest kernel_memory. Twelve inputs of 32 MiB in pieces of 8 MiB took 181 MiB.
    assert int(done.stdout) < 64


_DIGEST = """
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.parquet.digests import digest_file

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

folder = Path(sys.argv[1])
numbers = np.arange(400_000)
texts = pa.array(np.char.add("a text of this length, number ", numbers.astype(str)))
rows = pa.table({"id": numbers, "value": numbers * 1.5, "text": texts})
pq.write_table(rows.slice(0, 1), folder / "small")
pq.write_table(rows, folder / "large")
del texts, rows, numbers
pa.default_memory_pool().release_unused()
digest_file(folder / "small")  # what is loaded at the first use
before = resident()
for _ in range(3):
    digest_file(folder / "large")
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_proof_of_the_inputs_leaves_no_memory_behind_beside_duckdb(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DIGEST, str(tmp_path)], check=True, capture_output=True, text=True
    )
    # Arrow's allocator kept 60 MiB of a file of 36, of which it needed 17 at a time.
    assert int(done.stdout) < 24


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            duckdb.OutOfMemoryException("Out of Memory Error: could not allocate 8 MiB (1/1 used)"),
            "the memory of its kernel (could not allocate 8 MiB (1/1 used)); raise merge.kernel_me",
        ),
        (
            duckdb.OutOfMemoryException(
                "Out of Memory Error: Failed to allocate block of 1101824 bytes (bad allocation)"
            ),
            "by the system (Failed to allocate block of 1101824 bytes (bad allocation)); give its ",
        ),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "(malloc of size 64 failed); give its"),
        (
            duckdb.InternalException(
                "INTERNAL Error: Parquet writer: 8388617 compressed page size out of range for "
                "type integer"
            ),
            "compressed page size out of range for type integer); give its process 1.3 x merge.ker",
        ),
        (
            duckdb.InternalException(
                "INTERNAL Error: Parquet writer: 2147483648 compressed page size out of range for "
                "type integer"
            ),
            "failed in the kernel: InternalException: Parquet writer: 2147483648 compressed page",
        ),
    ],
)
def test_memory_that_the_system_refuses_is_told_from_the_kernels_own_bound(
    error: Exception, said: str
) -> None:
    assert said in str(kernel_fault("group 1", error))
