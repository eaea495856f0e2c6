"""Decide whether the included outputs of a merge stand for all that it was made from.

A merge may have written several outputs, and its inputs are left out because of each of them. If
one is missing, or excluded, its rows are in none of the parts that stay. Rows are counted: outputs
that have as many as their inputs are complete. Fewer may be right, too, since a merge leaves out
what deletes hide; then a person has to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firnline.parquet.footers import FooterFacts
from firnline.units import counted


@dataclass(frozen=True, slots=True)
class StandsFor:
    """What an included output says of a part that it was made from."""

    output: str
    """Key of the first such output."""
    doubt: str = ""
    """Why nobody can tell that no row is lost; empty if none is."""


def stand_for(
    included: Iterable[FooterFacts], rows: Mapping[str, int | None]
) -> dict[str, StandsFor]:
    """Return what is said of each input of included parts, by key.

    Args:
        included: parts that are included, whatever the table was called.
        rows: of all parts and objects that are known, by key; None if a part does not state them.
    """
    stood_for: dict[str, StandsFor] = {}
    for outputs in _runs([facts for facts in included if facts.inputs]):
        inputs = {key for facts in outputs for key in facts.inputs}
        first = min(facts.key for facts in outputs)
        doubt = _doubt(outputs, [rows.get(key) for key in sorted(inputs)])
        stood_for.update((key, StandsFor(first, doubt)) for key in inputs)
    return stood_for


def _doubt(outputs: list[FooterFacts], inputs: list[int | None]) -> str:
    written = sum(facts.rows for facts in outputs)
    what = (
        f"was made into {outputs[0].key}"
        + (f" and {counted(len(outputs) - 1, 'other part')}" if len(outputs) > 1 else "")
        + f", which {'is' if len(outputs) == 1 else 'are'} included and "
        f"{'has' if len(outputs) == 1 else 'have'} {counted(written, 'row')}"
    )
    stated = [n for n in inputs if n is not None]
    if len(stated) < len(inputs):
        return (
            f"{what}; not all that went in is here to compare, so others may be missing beside it"
        )
    if sum(stated) == written:
        return ""
    if sum(stated) < written:
        return f"{what}, more than the {sum(stated):,} that went in: outputs of two runs"
    return (
        f"{what} of the {counted(sum(stated), 'row')} that went in: the others were deleted, or "
        "are in outputs that are missing or left out"
    )


def _runs(outputs: list[FooterFacts]) -> list[list[FooterFacts]]:
    """Return the outputs in groups that share inputs: those of one run."""
    runs: list[tuple[set[str], list[FooterFacts]]] = []
    for facts in sorted(outputs, key=lambda facts: facts.key):
        inputs, members = set(facts.inputs), [facts]
        rest = []
        for keys, others in runs:
            if keys & inputs:
                inputs |= keys
                members = [*others, *members]
            else:
                rest.append((keys, others))
        runs = [*rest, (inputs, members)]
    return [members for _, members in runs]
