"""Every kind of object that a table has, and what of a row an object of it may hold.

An erase is complete when nothing holds its keys any more. What may hold them is decided here, once:
the search of a certificate (``operations.erase.searches``), the sweep's and the documents' lists
(docs/format.md, "What an object may hold of a row") go by ``KINDS``. A new kind of object is a line
here, and a test finds keys that no line describes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from firnline.ids import UUID7
from firnline.paths import TablePaths

Trace = Literal["rows", "bounds", "partitions", "conditions", "keys", "samples"]
"""rows: whole rows; bounds: smallest and largest values of columns, and ranges of their hashes;
partitions: names of partitions, which are values of rows; conditions: literals of deletes, erases,
replaces and rewrites; keys: the keys of an erase; samples: rows that were shown to somebody."""
Search = Literal[
    "parts", "log text", "clone plans", "keys files", "prepared changes", "delta", "iceberg"
]
"""Name of the search by which a certificate finds the objects of a kind that may hold a key."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """One kind of object."""

    name: str
    form: str
    """Key under the table's root, as the documents show it."""
    pattern: re.Pattern[str]
    """Of the key under the table's root."""
    until: str
    """When an object of it goes, in words."""
    holds: tuple[Trace, ...] = ()
    """Empty: nothing of a row."""
    search: Search | None = None
    """None: it holds nothing of a row."""


def _kind(
    name: str,
    form: str,
    pattern: str,
    until: str,
    holds: tuple[Trace, ...] = (),
    search: Search | None = None,
) -> ObjectKind:
    return ObjectKind(name, form, re.compile(pattern, re.DOTALL), until, holds, search)


_ID = UUID7.pattern
_LOG: tuple[Trace, ...] = ("bounds", "partitions", "conditions")
_RETAINED = "100 newer ones are there, and it is 7 days old"

KINDS: tuple[ObjectKind, ...] = (
    _kind("log file", "_log/….jsonl", r"_log/[^/]+\.jsonl",
          "it is folded, and seen for the grace", _LOG, "log text"),
    _kind("transaction", "_txn/{seq}.jsonl", r"_txn/(?!0{20}\.)[0-9]{20}\.jsonl",
          _RETAINED, _LOG, "log text"),
    _kind("birth record", "_txn/{0}.jsonl", r"_txn/0{20}\.jsonl", "it stays"),
    _kind("checkpoint", "_ckpt/….parquet", rf"_ckpt/[0-9]{{20}}-{_ID}\.parquet",
          "two newer ones are there", _LOG, "log text"),
    _kind("part", "_data/….parquet", r"_data/.+",
          "it is replaced and the grace is over; one that no log file names: the sweep takes it",
          ("rows", "bounds", "partitions"), "parts"),
    _kind("keys of an erase", "_erase/{id}.keys.parquet", rf"_erase/{_ID}\.keys\.parquet",
          "the erase ends; after its death the next erase, certificate or sweep takes it",
          ("keys",), "keys files"),
    _kind("certificate", "_erase/{id}.json, .plan.json, .complete.json",
          rf"_erase/{_ID}(\.plan|\.complete)?\.json", "it stays"),
    _kind("record of a run", "_runs/{digest}/{number}.json",
          r"_runs/[0-9a-f]{32}/[0-9]{6}\.json", "it stays"),
    _kind("claim of a key", "_once/{digest}/{number}.json",
          r"_once/[0-9a-f]{32}/[0-9]{6}\.json",
          "`append.once` is over: the clean-up takes it"),
    _kind("list of imported files", "_imports/{id}.json, .visible",
          rf"_imports/{_ID}\.(json|visible)",
          "a later import continues it: the clean-up takes it"),
    _kind("prepared change", "_prepared/{id}.json", rf"_prepared/{_ID}\.json",
          "it is committed or discarded, or nobody decides in time and the sweep takes it",
          ("samples", "bounds", "partitions", "conditions"), "prepared changes"),
    _kind("decision on a prepared change", "_prepared/{id}.decision.json, .closed.json",
          rf"_prepared/{_ID}\.(decision|closed)\.json", "the sweep takes it"),
    _kind("version of the Delta mirror", "_delta_log/…", r"_delta_log/.+",
          "the version that shows the erase is as old as the grace", ("bounds", "partitions"),
          "delta"),
    _kind("deletion vectors", "_delta_vectors/…", r"_delta_vectors/.+",
          "no version names them any more", ("partitions",), "delta"),
    _kind("record of what the Iceberg mirror shows", "_iceberg/shown/…", r"_iceberg/shown/.+",
          "newer ones are there"),
    _kind("metadata of the Iceberg mirror", "_iceberg/metadata/…", r"_iceberg/(?!shown/).+",
          "the snapshot that shows the erase is as old as one and a half graces",
          ("bounds", "partitions"), "iceberg"),
    _kind("probe", "_probe/{id}", rf"_probe/{_ID}", "the check of the store is over"),
    _kind("plan of a clone", "_probe/clone", r"_probe/clone",
          "the clone is complete", _LOG, "clone plans"),
)  # fmt: skip
"""All of them; a key has the first kind whose pattern it matches."""


def kind_of(paths: TablePaths, key: str) -> ObjectKind | None:
    """Return the kind of an object; None for a key that is not the product's."""
    root = paths.data_dir.removesuffix("_data/")
    if not key.startswith(root):
        return None
    rest = key.removeprefix(root)
    return next((kind for kind in KINDS if kind.pattern.fullmatch(rest)), None)
