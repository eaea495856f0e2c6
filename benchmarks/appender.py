"""Rows per second through an Appender, requests per flush, and what a SIGKILL loses.

    python -m benchmarks.appender [rounds]      all, as a table
    python -m benchmarks.appender one KIND ROOT AMOUNTS      one contender in this process, as JSON
    python -m benchmarks.appender serve ROOT FILE      appends until it is killed

A row has four columns: a number, a text of 20 letters, a time, a float. Contenders are processes
of their own, one after the other; their clocks run from the first row to the last acknowledgement.
The S3 server is the one of the tests, on this machine. delta-rs gathers nothing: it is given the
batches as they come, or as many rows at once as an Appender puts into one flush.
"""

from __future__ import annotations

import datetime
import itertools
import json
import mmap
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import MIB, Figures, Usage, run_json
from benchmarks.sizes import FULL, Amounts
from firnline.appends.buffer import Ack
from firnline.appends.service import Appender
from firnline.settings.load import settings_for_root
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tools.memory import peak_mib
from tools.s3server import S3Server

START = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - a TIMESTAMP without zone


def opened(root: str, env: Mapping[str, str] | None = None) -> Table:
    """The table; ``env``: with which its store is found, if not with this process's."""
    return open_table(settings_for_root(root), StoreAccess.from_env(env))


def row(n: int) -> dict[str, Any]:
    return {"n": n, "event": f"event-{n % 1000:014d}", "ts": START, "value": n / 7}


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + rows), pa.int64())
    return pa.record_batch(
        {
            "n": numbers,
            "event": pa.array([f"event-{n % 1000:014d}" for n in range(first, first + rows)]),
            "ts": pa.array([START] * rows, pa.timestamp("us")),
            "value": pa.array([n / 7 for n in range(first, first + rows)]),
        }
    )


def calls(kind: str, amounts: Amounts) -> Iterator[Any]:
    """What is given, call by call; made before the clock runs, and the same again and again."""
    total, call = amounts.of(kind), amounts.call
    if kind == "rows":
        made = [row(n) for n in range(100_000)]
        return itertools.islice(itertools.cycle(made), total)
    if kind == "lists":
        lists = [[row(n) for n in range(i, i + call)] for i in range(0, 100_000, call)]
        return itertools.islice(itertools.cycle(lists), total // call)
    step = amounts.flush if kind == "delta flushes" else amounts.batch
    batches = [batch(i * step, step) for i in range(max(1, 200_000 // step))]
    return itertools.islice(itertools.cycle(batches), total // step)


def one(kind: str, root: str, amounts: Amounts) -> dict[str, Any]:
    """One contender in this process."""
    given = calls(kind, amounts)
    measured = _delta(root, given) if kind.startswith("delta") else _firnline(root, given)
    peak = peak_mib()
    return {"rows": amounts.of(kind), "peak_mb": peak, **measured}


def _firnline(root: str, given: Iterator[Any]) -> dict[str, Any]:
    table = opened(root)
    acks: list[Ack] = []
    with Appender(table) as appender:
        appender.append(row(0))
        appender.flush()
        before = Counter(table.store.counters.as_dict())
        began = time.perf_counter()
        for each in given:
            ack = appender.append(each)
            if not acks or acks[-1] is not ack:
                acks.append(ack)
        appender.flush()
        seconds = time.perf_counter() - began
    after = Counter(table.store.counters.as_dict())
    requests = sum((after - before)[kind] for kind in ("get", "put", "list", "head", "delete"))
    return {
        "seconds": seconds,
        "flushes": len(acks),
        "requests": requests,
        "bytes_out": (after - before)["bytes_out"],
    }


def _delta(root: str, given: Iterator[Any]) -> dict[str, Any]:
    from deltalake import write_deltalake

    options = None
    if root.startswith("s3://"):
        access = StoreAccess.from_env()
        options = {
            "AWS_ENDPOINT_URL": str(access.endpoint),
            "AWS_ALLOW_HTTP": "true",
            "AWS_CONDITIONAL_PUT": "etag",
        }
    place = root.removeprefix("file://")
    write_deltalake(place, pa.Table.from_batches([batch(0, 1)]), storage_options=options)
    began, commits = time.perf_counter(), 0
    for each in given:
        rows = pa.Table.from_batches([each])
        write_deltalake(place, rows, mode="append", storage_options=options)
        commits += 1
    return {"seconds": time.perf_counter() - began, "flushes": commits}


def serve(root: str, file: Path) -> None:
    """Append dictionaries until killed; the file tells how many were given and acknowledged."""
    with file.open("r+b") as handle, mmap.mmap(handle.fileno(), 16) as told:
        given: list[tuple[Ack, int]] = []
        with Appender(opened(root), max_age_ms=500) as appender:
            for n in itertools.count():
                ack = appender.append(row(n))
                struct.pack_into("q", told, 0, n + 1)
                if not given or given[-1][0] is not ack:
                    given.append((ack, n))
                while len(given) > 1 and given[0][0].done():
                    given.pop(0)[0].result()
                    struct.pack_into("q", told, 8, given[0][1])


def killed(root: str, env: Mapping[str, str], folder: Path, serve_s: float) -> dict[str, Any]:
    """Rows given, acknowledged and found, of a service that was killed."""
    file = folder / "told"
    file.write_bytes(bytes(16))
    command = [sys.executable, "-m", "benchmarks.appender", "serve", root, str(file)]
    process = subprocess.Popen(command, env={**os.environ, **env})
    while struct.unpack("qq", file.read_bytes())[1] == 0 and process.poll() is None:
        time.sleep(0.01)
    time.sleep(serve_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    given, acknowledged = struct.unpack("qq", file.read_bytes())
    found = _found(opened(root, env), folder)
    return {
        "given": given,
        "acknowledged": acknowledged,
        "found": sum(found.values()),
        "acknowledged_and_lost": sum(n not in found for n in range(acknowledged)),
        "doubled": sum(count > 1 for count in found.values()),
        "lost": given - len(found),
    }


def _found(table: Table, folder: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for key in read_snapshot(table.store, table.paths).live:
        table.store.get_file(key, folder / "part")
        found.update(pq.ParquetFile(folder / "part").read(["n"])["n"].to_pylist())
    return found


def in_process(kind: str, root: str, env: Mapping[str, str], amounts: Amounts) -> dict[str, Any]:
    """``one`` in a process of its own."""
    given = msgspec.json.encode(amounts).decode()
    return run_json([sys.executable, "-m", "benchmarks.appender", "one", kind, root, given], env)


def measure(
    work: Path,
    rounds: int,
    amounts: Amounts,
) -> dict[str, list[dict[str, Any]]]:
    """All contenders in turn, ``rounds`` times; then the kills, once each."""
    results: dict[str, list[dict[str, Any]]] = {}
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with S3Server(work / "s3") as server:
        for number, (kind, what) in itertools.product(range(rounds), amounts.what().items()):
            disk = work / f"{kind.replace(' ', '-')}-{number}"
            name = f"{'firnline' if kind in ('rows', 'lists', 'batches') else 'delta-rs'}"
            for where, root, env in (
                ("local disk", f"file://{disk}", {}),
                ("S3", server.url(disk.name), server.env()),
            ):
                found = in_process(kind, root, env, amounts)
                results.setdefault(f"{name}, {where}: {what}", []).append(found)
            shutil.rmtree(disk, ignore_errors=True)
        wait = amounts.serve_s
        results["SIGKILL, local disk"] = [killed(f"file://{work / 'killed'}", {}, work, wait)]
        results["SIGKILL, S3"] = [killed(server.url("killed"), server.env(), work, wait)]
    shutil.rmtree(work, ignore_errors=True)
    return results


def compare(work: Path, rounds: int, amounts: Amounts) -> list[Figures]:
    """Rows through an Appender, and what a SIGKILL loses."""
    figures = []
    for name, results in measure(work / "appender", rounds, amounts).items():
        if name.startswith("SIGKILL"):
            told = ", ".join(f"{count:,} {what}" for what, count in results[0].items())
            figures.append(Figures(name, told.replace("_", " "), [Usage()]))
            continue
        usages = [Usage(r["seconds"], 0, int(r["peak_mb"] * MIB)) for r in results]
        rate = round(results[0]["rows"] / sorted(r["seconds"] for r in results)[len(results) // 2])
        notes = {"rows": results[0]["rows"], "rows_per_s": rate, "flushes": results[0]["flushes"]}
        if "requests" in results[0]:
            notes["requests"] = results[0]["requests"]
        figures.append(Figures(name, "", usages, notes))
        print(f"  appender  {name:60s} {rate:>12,} rows/s")
    return figures


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    if arguments[:1] == ["one"]:
        amounts = msgspec.json.decode(arguments[3], type=Amounts)
        print(json.dumps(one(arguments[1], arguments[2], amounts)))
        return
    if arguments[:1] == ["serve"]:
        serve(arguments[1], Path(arguments[2]))
        return
    work, rounds = Path(".cache/bench/appender").resolve(), int(arguments[0]) if arguments else 3
    for name, each in measure(work, rounds, FULL.appended).items():
        if name.startswith("SIGKILL"):
            print(f"{name:60} {each[0]}")
            continue
        rates = [result["rows"] / result["seconds"] for result in each]
        peak = max(result["peak_mb"] for result in each)
        print(
            f"{name:60} {statistics.median(rates):>12,.0f} rows/s"
            f" ({min(rates):,.0f} to {max(rates):,.0f}), {each[0]['flushes']} flushes,"
            f" {each[0].get('requests', '?')} requests, peak {peak:.0f} MB"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
