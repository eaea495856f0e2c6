"""Columns in another form than that of parts (``parquet.form``), in sentences."""

from __future__ import annotations

from collections.abc import Mapping

WRITTEN_OTHERWISE = (
    "`firnline schema fix` with the column, the type that the table has for it and --all-parts "
    "writes such parts anew; `firnline verify --deep` names all of them, with the command"
)
"""The next step for a part with columns in a form that readers understand differently."""


def odd_in_words(odd: Mapping[str, str]) -> str:
    """Return columns and what differs in them, for a sentence after "has"."""
    return " and ".join(f"column {name!r} {why}" for name, why in odd.items())
