"""Parts per closed partition and bytes rewritten, a year of arrivals: rules alone, no I/O.

    python -m benchmarks.policy

Every hour an append brings rows of the day, and rows of earlier days that are late. firnline's
rows come from its own planner, on markers that were never written; the others from their public
documentation, with its defaults (docs/benchmarks.md says which). A merged file has the size of its
inputs: what compression saves is the same for all.
"""

from __future__ import annotations

import math
import random
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean

from benchmarks.measure import Figures, Usage
from firnline.log.records import Marker
from firnline.operations.merge.plan import plan_merge
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot

MIB, GIB = 2**20, 2**30
HOUR_MS = 3_600_000
DAYS = 365
SEED = 17
CLOSED = 7
"""Days after its end from which a partition counts as closed."""

Arrival = dict[int, int]
"""One append: day -> bytes of the part that it brings to that day's partition."""
Late = Callable[[random.Random, int], list[tuple[int, float]]]
"""Days before today that an append has late rows of, with their shares of its bytes."""


def none_late(_chance: random.Random, _hour: int) -> list[tuple[int, float]]:
    """Only the first append of a day has rows of the day before."""
    return []


def tail(chance: random.Random, _hour: int) -> list[tuple[int, float]]:
    """Rows of yesterday in every second append, of older days more and more rarely."""
    ages = [math.ceil(chance.paretovariate(1.2)) for _ in range(chance.randrange(2))]
    return [(age, 0.01) for age in ages if age < DAYS]


def daily(_chance: random.Random, hour: int) -> list[tuple[int, float]]:
    """Once a day a batch that completes each of the last seven days."""
    return [(age, 0.3) for age in range(1, 8)] if hour % 24 == 6 else []


def trickle(chance: random.Random, _hour: int) -> list[tuple[int, float]]:
    """In every fifth append a few rows of any day of the last quarter."""
    return [(chance.randrange(1, 91), 0.001)] if chance.random() < 0.2 else []


SHAPES: dict[str, Late] = {
    "on time": none_late,
    "late tail": tail,
    "late batches": daily,
    "trickle": trickle,
}
VOLUMES = {"200 MB a day": 200 * 10**6, "3 GB a day": 3 * 10**9}


def arrivals(volume: int, late: Late, days: int) -> Iterator[Arrival]:
    """Yield the appends of so many days, one an hour; the same for every rule."""
    chance = random.Random(SEED)
    for hour in range(days * 24):
        day = hour // 24
        total = round(volume / 24 * chance.lognormvariate(-0.125, 0.5))
        found: Arrival = defaultdict(int)
        shares = late(chance, hour) + ([(1, 0.5)] if hour % 24 == 0 else [])
        for age, share in shares:
            if age <= day:
                found[day - age] += max(1, round(total * share))
        found[day] += max(1, total - sum(found.values()))
        yield found


@dataclass
class Rule:
    """A table kept by one rule: what it holds, and what was rewritten."""

    files: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Day -> sizes, ascending."""
    rewritten: int = 0
    hour: int = 0
    written: tuple[int, ...] = ()
    """Days that the last append wrote to."""

    def append(self, arrival: Arrival) -> None:
        for day, size in arrival.items():
            insort(self.files[day], size)

    def keep(self) -> None:
        """What the rule does after each append."""

    def replace(self, day: int, gone: Sequence[int], new: Sequence[int]) -> None:
        for size in gone:
            self.files[day].remove(size)
        for size in new:
            insort(self.files[day], size)
        self.rewritten += sum(gone)


def next_fit(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield bins of sizes in their order, each up to ``most``."""
    gathered: list[int] = []
    for size in sizes:
        if gathered and sum(gathered) + size > most:
            yield gathered
            gathered = []
        gathered.append(size)
    if gathered:
        yield gathered


class DeltaOptimize(Rule):
    """OPTIMIZE every night: files below 1 GiB in bins of 1 GiB, bins of two or more."""

    def keep(self) -> None:
        if self.hour % 24 == 3:
            for day in self.files:
                self.pack(day, GIB, GIB, least=2)

    def pack(self, day: int, below: int, most: int, *, least: int) -> None:
        small = [size for size in self.files[day] if size < below]
        if len(small) < least:
            return
        for one in list(next_fit(small, most)):
            if len(one) > 1:
                self.replace(day, one, [sum(one)])


class DeltaAutoCompaction(DeltaOptimize):
    """After a write: 50 files below 64 MiB in a partition become files of up to 128 MiB."""

    def keep(self) -> None:
        for day in self.written:
            self.pack(day, 64 * MIB, 128 * MIB, least=50)


class Iceberg(Rule):
    """rewrite_data_files every night: at least 5 files outside of 75 to 180 % of 512 MiB, or more
    than 512 MiB of them."""

    def keep(self) -> None:
        if self.hour % 24 != 3:
            return
        target = 512 * MIB
        for day in self.files:
            wrong = [s for s in self.files[day] if not 0.75 * target <= s <= 1.8 * target]
            total = sum(wrong)
            if len(wrong) >= 5 or (len(wrong) > 1 and total > target):
                count = max(1, round(total / target))
                self.replace(day, wrong, _cut(total, count))


class Hudi(Rule):
    """Inserts fill files below 100 MiB up to 120 MiB, which writes these files again."""

    def append(self, arrival: Arrival) -> None:
        limit, most = 100 * MIB, 120 * MIB
        for day, size in arrival.items():
            left = size
            for small in [s for s in self.files[day] if s < limit]:
                added = min(left, most - small)
                if added <= 0:
                    break
                self.replace(day, [small], [small + added])
                left -= added
            while left > 0:
                insort(self.files[day], min(left, most))
                left -= most


class HudiClustering(Hudi):
    """The same, and inline clustering after every fourth commit: files below 300 MiB, up to 30
    groups of up to 2 GiB, into files of up to 1 GiB."""

    def keep(self) -> None:
        if self.hour % 4 != 3:
            return
        groups = [
            (day, one)
            for day, sizes in self.files.items()
            for one in next_fit([s for s in reversed(sizes) if s < 300 * MIB], 2 * GIB)
            if len(one) > 1
        ]
        for day, one in groups[:30]:
            self.replace(day, one, _cut(sum(one), math.ceil(sum(one) / GIB)))


def _cut(total: int, count: int) -> list[int]:
    return [total // count + (1 if index < total % count else 0) for index in range(count)]


class Firnline(Rule):
    """The planner every hour, on the partitions that were written to or are due."""

    def __init__(self, finish_after: str | None) -> None:
        super().__init__()
        settings = {"name": "t", "root": "file:///t", "merge": {"finish_after": finish_after}}
        self.settings = TableSettings.model_validate(settings)
        self.parts: dict[int, dict[str, Marker]] = defaultdict(dict)
        self.due: dict[int, int] = {}
        self.count = 0
        self.now = 0

    def put(self, day: int, size: int, order: tuple[int, int]) -> None:
        self.count += 1
        key = f"t/_data/day={day:03}/{self.count:08}.parquet"
        self.parts[day][key] = Marker(p=key, b=size, t=self.now, n=1, q=0, o=order)

    def append(self, arrival: Arrival) -> None:
        for day, size in arrival.items():
            self.put(day, size, (self.now, self.now))
            self.due[day] = self.now

    def keep(self) -> None:
        for day in [day for day, at in self.due.items() if at <= self.now]:
            del self.due[day]
            plan = plan_merge(state_of(self.parts[day]), self.settings, self.now)
            for group in plan.groups:
                orders = [m.order() for m in group.parts]
                for marker in group.parts:
                    del self.parts[day][marker.p]
                self.put(day, group.bytes, (min(orders)[0], max(o[1] for o in orders)))
                self.rewritten += group.bytes
            if plan.groups:
                self.due[day] = self.now + HOUR_MS
            elif plan.next_due is not None:
                self.due[day] = plan.next_due
            self.files[day] = sorted(m.b for m in self.parts[day].values())
        self.now += HOUR_MS


def state_of(parts: dict[str, Marker]) -> Snapshot:
    """A state that holds these parts and nothing else."""
    return Snapshot(
        paths=TablePaths("t"),
        listing={},
        contents={},
        parts=parts,
        log_tombstones={},
        deletes={},
        other=frozenset(),
        schema={},
        seq=0,
        purged=0,
    )


RULES: dict[str, tuple[str, Callable[[], Rule]]] = {
    "firnline, no finish_after": ("small parts wait for ever", lambda: Firnline(None)),
    "firnline, finish_after 1d": ("", lambda: Firnline("1d")),
    "firnline, finish_after 2d": ("the default", lambda: Firnline("2d")),
    "firnline, finish_after 7d": ("", lambda: Firnline("7d")),
    "Delta OPTIMIZE": ("every night, bins of 1 GiB", DeltaOptimize),
    "Delta auto compaction": ("50 files below 64 MiB into 128 MiB", DeltaAutoCompaction),
    "Iceberg rewrite_data_files": ("every night, 5 files, 512 MiB", Iceberg),
    "Hudi insert sizing": ("files below 100 MiB are filled", Hudi),
    "Hudi insert sizing and clustering": ("every 4 commits, up to 1 GiB", HudiClustering),
}


@dataclass(frozen=True)
class Outcome:
    """A year of one rule."""

    closed: float
    """Mean parts of a closed partition, at the end of the year."""
    amplification: float
    """Bytes rewritten for each byte that arrived."""
    recent: float
    """Mean parts of a partition of the last seven days, once a day."""

    def __str__(self) -> str:
        return f"{self.closed:.2f} / {self.amplification:.2f} / {self.recent:.1f}"


def simulate(rule: Rule, volume: int, late: Late, days: int = DAYS) -> Outcome:
    """Keep a table by a rule for a year, or so many days."""
    arrived = 0
    recent: list[int] = []
    for hour, arrival in enumerate(arrivals(volume, late, days)):
        arrived += sum(arrival.values())
        rule.append(arrival)
        rule.hour, rule.written = hour, tuple(arrival)
        rule.keep()
        if hour % 24 == 12:
            week = range(max(0, hour // 24 - 6), hour // 24 + 1)
            recent += [len(rule.files[day]) for day in week]
    closed = [len(rule.files[day]) for day in range(days - CLOSED)]
    return Outcome(mean(closed), rule.rewritten / arrived, mean(recent))


def compare(days: int = DAYS) -> list[Figures]:
    """Every rule with every volume and shape of arrivals."""
    found = []
    for name, (what, make) in RULES.items():
        notes: dict[str, object] = {
            f"{volume}, {shape}": str(simulate(make(), size, late, days))
            for volume, size in VOLUMES.items()
            for shape, late in SHAPES.items()
        }
        found.append(Figures(name, what, [Usage()], notes))
        print(f"  policy    {name:36s} " + "  ".join(map(str, notes.values())))
    return found


if __name__ == "__main__":
    compare()
