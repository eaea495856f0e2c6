"""Every section of docs/benchmarks.md: its name, and what measures it."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import (
    appender,
    bloom,
    cleanup,
    cluster,
    cold,
    drop,
    erase,
    lazy,
    many,
    memory,
    merge,
    mirror,
    planned,
    policy,
    proof,
    read,
    replace,
    requests,
    small,
    snapshot,
    wide,
)
from benchmarks.measure import Figures
from benchmarks.sizes import Bench

_LONG = 3
"""Rounds, at most, of sections whose rounds take minutes."""


def _memory(bench: Bench) -> list[Figures]:
    """One kernel, in each order and by each method of clusters."""
    return [
        memory.measure(bench),
        memory.measure(bench, sort=False, cluster="range"),
        memory.measure(bench, sort=False, cluster="zorder"),
    ]


SECTIONS: dict[str, Callable[[Bench], list[Figures]]] = {
    "sorted": lambda bench: merge.compare("sorted", bench),
    "sorted parts": lambda bench: merge.compare("sorted parts", bench),
    "unsorted": lambda bench: merge.compare("unsorted", bench),
    "wide": wide.merge,
    "many small": many.compare,
    "append": wide.append,
    "cold": cold.compare,
    "small": small.compare,
    "memory": _memory,
    "proof": proof.compare,
    "snapshot": snapshot.compare,
    "cleanup": lambda bench: cleanup.compare(bench.work, bench.sizes.cleaned, bench.rounds),
    "drop": drop.compare,
    "lazy": lazy.compare,
    "appender": lambda bench: appender.compare(bench.work, bench.rounds, bench.sizes.appended),
    "cluster": lambda bench: cluster.compare(bench.work, *bench.sizes.clustered),
    "bloom": lambda bench: bloom.compare(bench.work, *bench.sizes.filtered),
    "read": read.compare,
    "mirror": lambda bench: mirror.compare(
        bench.tables, bench.work, min(bench.rounds, _LONG), bench.sizes.mirrored
    ),
    "erase": lambda bench: erase.compare("spread", bench),
    "requests": lambda bench: requests.compare(bench, min(bench.rounds, _LONG)),
    "requests planned": lambda bench: planned.compare(bench, min(bench.rounds, _LONG)),
    "replace": lambda bench: replace.compare(bench, min(bench.rounds, _LONG)),
    "policy": lambda bench: policy.compare(bench.sizes.policy_days),
    "erase few": lambda bench: erase.compare("few", bench),
}
