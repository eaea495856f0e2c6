"""The simulation: `make simulate SEEDS=n FROM=s`.

python -m simulation [--seeds N] [--from S] [--corpus] [--jobs N] [--trace]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from simulation.rules.catalogue import MUTATIONS, RARE, breaking
from simulation.run import Finding, Played, play_seed, play_seeds
from simulation.shrink import shrink

_CHUNK = 25
_PROGRESS_SECONDS = 60.0
"""Seconds between two lines of progress."""


def main(arguments: list[str]) -> int:
    """Run the simulation; return 0, or 1 after the first violation."""
    given = _parsed(arguments)
    chunks = chunks_of(given.first, given.seeds, corpus=given.corpus, broken=given.broken)
    began = time.monotonic()
    found = _all(chunks, given.jobs, given.broken)
    took = time.monotonic() - began
    if isinstance(found, Finding):
        print(f"VIOLATION in seed {found.seed}, step {found.step}: {found.what}")
        if given.broken is not None:
            breaking(given.broken)()
        _show(play_seed(found.seed), whole=given.trace)
        return 1
    seeds = sum(map(len, chunks))
    print(f"{seeds:,} seeds without a violation, {seeds / took:.1f} a second")
    for line in summary_of(found):
        print(line)
    return 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument(
        "--corpus", action="store_true", help="besides, the seed that finds each rule of --break"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="the whole seed, not a short one")
    rules = sorted({*MUTATIONS, *RARE})
    parser.add_argument(
        "--break",
        dest="broken",
        choices=rules,
        metavar="RULE",
        help="switch a rule of the product off, which has to be found; its name as listed below",
    )
    parser.epilog = "\n".join(["rules:", *(f"  {rule}" for rule in rules)])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser.parse_args(arguments)


def chunks_of(first: int, seeds: int, *, corpus: bool, broken: str | None = None) -> list[range]:
    """Return the seeds to play in the order of playing; what one process plays stands together.

    Args:
        first: the first seed of the range.
        seeds: number of seeds.
        corpus: whether to play the seed of each rule that can be broken, too, before the others.
        broken: the broken rule; its own seed of the corpus comes first.
    """
    row = range(first, first + seeds)
    own = [MUTATIONS[broken].seed] if corpus and broken in MUTATIONS else []
    others = {mutation.seed for mutation in MUTATIONS.values() if corpus} - {*row, *own}
    return [
        *(range(seed, seed + 1) for seed in [*own, *sorted(others)]),
        *(row[start : start + _CHUNK] for start in range(0, seeds, _CHUNK)),
    ]


def summary_of(found: Mapping[str, int]) -> list[str]:
    """Return in lines what was done and looked at, what was refused, and which mistakes were found.

    Args:
        found: counts by name; what follows a colon is the error, or the mistake of a kernel.
    """
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    mistakes: Counter[str] = Counter()
    for name, count in found.items():
        what, _, error = name.partition(": ")
        into = mistakes if what == "mistake" else refused if error else done
        into[error or what] += count
    lines = [f"  done: {_listed(done)}", f"  refused, as it must be: {_listed(refused)}"]
    if mistakes:
        made = f"{mistakes.total():,} mistakes of kernels, all found"
        lines.append(f"  {made}: {_listed(mistakes)}")
    return lines


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _show(played: Played, *, whole: bool) -> None:
    """Print the trace of a violation, shortened unless ``whole``."""
    if not whole:
        print(f"making it short ({len(played.events)} events) ...", flush=True)
        played = shrink(played)
    print("\n".join(played.trace))
    if played.finding is not None:
        print(f"VIOLATION: {played.finding.what}")


def _all(chunks: Sequence[range], jobs: int, broken: str | None) -> Finding | Counter[str]:
    total: Counter[str] = Counter()
    progress = _Progress(sum(map(len, chunks)))
    start_worker = None if broken is None else breaking(broken)
    with ProcessPoolExecutor(jobs, initializer=start_worker) as pool:
        sent = {pool.submit(play_seeds, seeds.start, len(seeds)): len(seeds) for seeds in chunks}
        for future in as_completed(sent):
            found = future.result()
            if isinstance(found, Finding):
                pool.shutdown(cancel_futures=True)
                return found
            total.update(found)
            progress.played(sent[future])
    return total


class _Progress:
    """Prints the number of played seeds once a minute."""

    def __init__(self, seeds: int) -> None:
        self._seeds, self._played = seeds, 0
        self._began = self._shown_at = time.monotonic()

    def played(self, seeds: int) -> None:
        """Count more played seeds."""
        self._played += seeds
        now = time.monotonic()
        if now - self._shown_at >= _PROGRESS_SECONDS:
            self._shown_at = now
            rate = self._played / (now - self._began)
            print(f"{self._played:,} of {self._seeds:,} seeds, {rate:.1f} a second", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
