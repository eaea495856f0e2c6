"""Rules of streaming reads, each of which can be switched off."""

from __future__ import annotations

from typing import Any

from firnline.read import offsets as stream
from firnline.read import stream as stream_parts
from simulation.rules.breaking import Mutation, put


def _appends_by_time() -> None:
    real = stream.__dict__["pending"]

    def pending(offset: Any, view: Any) -> Any:
        last = max(map(stream.time_in, offset.seen), default=0)
        return [each for each in real(offset, view) if stream.time_in(each[1]) > last]

    put(stream, "pending", pending)


def _folded_again() -> None:
    real = stream.Folds.__dict__["of"].__func__

    def of(content: Any, op: str, paths: Any) -> Any:
        found = real(stream.Folds, content, op, paths)
        return stream.Folds(found.every, found.every, found.foreign, found.op, found.records)

    stream.Folds.of = of  # type: ignore[method-assign] # the point of it


def _records_for_ever() -> None:
    put(stream_parts, "forgotten_records", lambda *_: ())


STREAMS: dict[str, Mutation] = {
    "a stream takes appends in the order of their times": Mutation(_appends_by_time, 24),
    "a stream takes a fold for the first one": Mutation(_folded_again, 12),
    "a stream reads dead parts however old they are": Mutation(_records_for_ever, 89),
}
