"""Rules of the proof of merges, each of which can be switched off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from firnline.commit.outputs import Outputs
from firnline.kernel.proof import Proof
from firnline.operations.merge import slices
from firnline.types import rowhash
from simulation.rules.breaking import Mutation, put


def _nothing_is_compared() -> None:
    real = Proof.end

    def end(self: Any) -> Any:
        return None if self.task.slice is None else real(self)

    Proof.end = end  # type: ignore[method-assign] # the point of it


def _slices_are_not_compared() -> None:
    put(slices, "_difference", lambda *_: "")


def _slices_stay() -> None:
    class Left(Outputs):
        def delete(self, keys: Iterable[str] | None = None) -> None:
            self.release(list(self._keys if keys is None else keys))

    put(slices, "Outputs", Left)


def _zeros_are_one() -> None:
    real = rowhash.__dict__["_reader"]

    def reader(kind: Any) -> Any:
        read = real(kind)
        if read is not rowhash.__dict__["_of_float"]:
            return read
        minus = np.uint64(1 << 63)
        return lambda array: tuple(np.where(w == minus, np.uint64(0), w) for w in read(array))

    put(rowhash, "_reader", reader)


def _nulls_are_values() -> None:
    real = rowhash.__dict__["_add"]

    def add(sums: Any, always: Any, column: Any, *rest: Any) -> None:
        text = "string" in str(column.type)
        real(sums, always, column.fill_null("") if text else column, *rest)

    put(rowhash, "_add", add)


PROOFS: dict[str, Mutation] = {
    "nobody compares what a proof has added up": Mutation(_nothing_is_compared, 17_001),
    "nobody compares slices with their parts": Mutation(_slices_are_not_compared, 17_047),
    "slices of a group that has failed stay": Mutation(_slices_stay, 17_047),
    "a digest does not know the sign of zero": Mutation(_zeros_are_one, 17_025),
    "a null has the digest of an empty text": Mutation(_nulls_are_values, 17_010),
}
