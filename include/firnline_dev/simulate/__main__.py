"""The simulation: `make simulate SEEDS=n FROM=s`.

python -m firnline_dev.simulate [--seeds N] [--from S] [--jobs N] [--trace]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed

from firnline_dev.simulate.mutations import MUTATIONS
from firnline_dev.simulate.run import Finding, Played, play_seed, play_seeds
from firnline_dev.simulate.shrink import shrink

_CHUNK = 25


def main(arguments: list[str]) -> int:
    """0, or 1 with the first violation."""
    parser = argparse.ArgumentParser(prog="python -m firnline_dev.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="the whole seed, not a short one")
    parser.add_argument("--break", dest="broken", choices=sorted(MUTATIONS), help="a rule")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    found = _all(given.first, given.seeds, given.jobs, given.broken)
    took = time.monotonic() - began
    if isinstance(found, Finding):
        print(f"VIOLATION in seed {found.seed}, step {found.step}: {found.what}")
        if given.broken is not None:
            MUTATIONS[given.broken]()
        _show(play_seed(found.seed), whole=given.trace)
        return 1
    print(f"{given.seeds} seeds without a violation, {given.seeds / took:.1f} a second")
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for name, count in found.items():
        what, _, error = name.partition(": ")
        (refused if error else done)[error or what] += count
    print("  done:", _listed(done))
    print("  refused, as it must be:", _listed(refused))
    return 0


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _show(played: Played, *, whole: bool) -> None:
    """What happened: as little of it as still violates a promise, unless all is wanted."""
    if not whole:
        print(f"making it short ({len(played.events)} events) ...", flush=True)
        played = shrink(played)
    print("\n".join(played.trace))
    if played.finding is not None:
        print(f"VIOLATION: {played.finding.what}")


def _all(first: int, seeds: int, jobs: int, broken: str | None) -> Finding | Counter[str]:
    total: Counter[str] = Counter()
    start_worker = None if broken is None else MUTATIONS[broken]
    with ProcessPoolExecutor(jobs, initializer=start_worker) as pool:
        chunks = [
            pool.submit(play_seeds, start, min(_CHUNK, first + seeds - start))
            for start in range(first, first + seeds, _CHUNK)
        ]
        for future in as_completed(chunks):
            found = future.result()
            if isinstance(found, Finding):
                pool.shutdown(cancel_futures=True)
                return found
            total.update(found)
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
