"""Options for every operation: together they use each field of each options struct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Given = Mapping[str, Any]
"""Fields as a person writes them: sizes and times as text, lists as lists."""

DAY = "1970-01-02"
FOREIGN = "file://{folder}/tables/foreign"
BAD = "file://{folder}/tables/bad"
CASES: Mapping[str, Sequence[Given]] = {
    "merge": [
        {},
        {"partitions": ["d=1"]},
        {"partitions": ["d=9"]},
        {"max_bytes": "1B"},
        {"max_bytes": "0B"},
        {"full": True},
        {"dry_run": True},
        {"max_bytes": ""},
        {"partitions": [""]},
    ],
    "cleanup": [
        {},
        {"max_deletes": 1},
        {"max_deletes": 0},
        {"old_types": True},
        {"dry_run": True},
        {"max_deletes": 1_000_000_001},
    ],
    "ttl": [{}, {"partitions": ["d=1"]}, {"partitions": ["d=9"]}, {"dry_run": True}],
    "drop": [
        {"partitions": ["d=1"]},
        {"partitions": ["d=9"]},
        {"partitions": ["d=1"], "dry_run": True},
    ],
    "rewrite": [
        {"where": "x <> 1"},
        {"where": "x <> 1", "partitions": ["d=1"]},
        {"where": "x <> 1", "partitions": ["d=9"]},
        {"where": "nope <> 1"},
        {"where": "x > 90"},
        {"where": "x > 90", "force": True},
        {"where": "x = 1", "sql": "from _rows"},
        {},
        {"sql": "select * replace (x + 1 as x) from _rows"},
        {"sql": "select 1"},
        {"where": "x <> 1", "start_ms": DAY, "end_ms": "1970-01-03"},
        {"where": "x <> 1", "start_ms": DAY},
        {"where": "x <> 1", "prepare": True},
        {"where": "x <> 1", "assertions": ["select false"]},
        {"where": "x <> 1", "assertions": ["select false"], "prepare": True},
        {"where": "x <> 1", "keys": ["x"]},
        {"where": "x <> 1", "keys": ["x"], "prepare": True},
        {"where": "x <> 1", "samples": 1},
        {"where": "x <> 1", "samples": 1, "prepare": True},
        {"where": "x <> 1", "keep": "7d"},
        {"where": "x <> 1", "keep": "7d", "prepare": True},
        {"where": "x <> 1", "dry_run": True},
        {"where": "x <> 1", "start_ms": "", "end_ms": ""},
        {"where": ""},
        {"where": "x <> 1", "prepare": True, "assertions": [""]},
        {"where": "x <> 1", "prepare": True, "keep": "0s"},
        {"where": "x <> 1", "prepare": True, "samples": 0},
        {"where": "x <> 4", "prepare": True, "assertions": ["select no from"], "dry_run": True},
        {"where": "x <> 4", "prepare": True, "keys": ["nope"], "dry_run": True},
    ],
    "delete": [
        {"where": "x = 1"},
        {"where": "x = 1", "partitions": ["d=1"]},
        {"where": "x = 1", "partitions": ["d=9"]},
        {"where": "x = 1", "mode": "eager"},
        {"where": "x = 1", "mode": "lazy"},
        {"where": "x + 1 = 2"},
        {"where": ""},
        {"where": "x = 1", "dry_run": True},
        {"where": "x = 1", "partitions": ["d=1", ""]},
    ],
    "replace": [
        {"column": "x", "start": 1, "end": 2, "nothing": True},
        {"column": "x", "start": 2, "end": 1, "nothing": True},
        {"column": "x", "start": 1, "end": 2},
        {"column": "x", "start": 1, "end": 2, "files": ["{rows}"]},
        {"column": "x", "start": 1, "end": 2, "files": ["{rows}"], "nothing": True},
        {"column": "x", "start": 5, "end": 6, "files": ["{rows}"]},
        {"column": "x", "start": 1, "end": 2, "files": ["{folder}/none.parquet"]},
        {"column": "x", "start": 1, "end": 2, "nothing": True, "equal": {"d": "1"}},
        {"column": "x", "start": 1, "end": 2, "nothing": True, "partition": "d=1"},
        {"column": "x", "start": 1, "end": 2, "nothing": True, "mode": "lazy"},
        {"start": "a", "end": "b", "nothing": True},
        {"column": "x", "start": 1, "end": 2, "nothing": True, "dry_run": True},
        {"column": "", "start": 1, "end": 2, "nothing": True},
        {"column": "x", "start": "", "end": 2, "nothing": True},
    ],
    "restore": [
        {"to": 0},
        {"to": 0, "partitions": ["*"]},
        {"to": 0, "partitions": ["d=1"]},
        {"to": 0, "partitions": ["d=9"]},
        {"to": 1, "partitions": ["*"], "exact": True},
        {"to": 0, "partitions": ["*"], "newest": 1},
        {"to": 0, "partitions": ["*"], "newest": 0},
        {"to": 77, "partitions": ["*"]},
        {"to": 0, "partitions": ["*"], "dry_run": True},
        {"to": 0, "partitions": [""]},
        {"to": -1, "partitions": ["*"]},
    ],
    "erase": [
        {"columns": ["x"], "keys_file": "{keys}"},
        {"columns": ["nope"], "keys_file": "{keys}"},
        {"columns": ["x"], "keys_file": "{folder}/none.csv"},
        {"columns": ["x"]},
        {"columns": ["x"], "keys": [[1]]},
        {"columns": ["x"], "keys_file": "{keys}", "dry_run": True},
        {"columns": [""], "keys_file": "{keys}"},
        {"columns": ["x"], "keys_file": ""},
    ],
    "sweep": [
        {},
        {"older_than": "7d"},
        {"older_than": "1h"},
        {"approved": ["nothing"]},
        {"dry_run": True},
        {"older_than": ""},
        {"approved": [""]},
    ],
    "verify": [
        {},
        {"deep": True},
        {"rows": True},
        {"rows": True, "sample": 2},
        {"sample": 2},
        {"witness": ["firnline-witness nonsense"]},
        {"witness": [""]},
        {"rows": True, "sample": 0},
    ],
    "rebuild": [
        {},
        {"force": True},
        {"force": True, "include": ["*"]},
        {"force": True, "exclude": ["*"]},
        {"force": True, "revive": True},
        {"force": True, "dry_run": True},
        {"force": True, "include": [""]},
    ],
    "import_files": [],
    "import_folder": [
        {"source": FOREIGN},
        {"source": f"{FOREIGN}/d=1"},
        {"source": "file://{folder}/tables/none"},
        {"source": "s3://elsewhere/x"},
        {"source": FOREIGN, "new": True},
        {"source": FOREIGN, "exclude": ["*.txt", "d=2/*"]},
        {"source": FOREIGN, "path_types": ["d=BIGINT"]},
        {"source": FOREIGN, "path_types": ["d=NOPE"]},
        {"source": FOREIGN, "no_path_columns": True},
        {"source": FOREIGN, "strict": True},
        {"source": FOREIGN, "again": True},
        {"source": FOREIGN, "split": True},
        {"source": BAD},
        {"source": BAD, "skip_bad": True},
        {"source": FOREIGN, "dry_run": True},
        {"source": FOREIGN, "exclude": [""]},
        {"source": ""},
    ],
    "clone": [],
    "properties": [{}, {"dry_run": True}],
    "commit": [],
    "discard": [],
    "analyze": [{}, {"partitions": ["d=9"]}, {"hashes": True}, {"dry_run": True}],
    "repartition": [{}, {"partitions": ["d=9"]}, {"every": True}, {"dry_run": True}],
    "downgrade": [{}, {"dry_run": True}],
    "relocate": [{}, {"old": "elsewhere"}, {"dry_run": True}, {"old": ""}],
    "mirror": [{}, {"repair": True}, {"dry_run": True}],
    "evolve": [],
    "schema_fix": [],
}
"""Options by the name of the operation."""
NOWHERE: Mapping[str, Given] = {
    "replace": {"column": "x", "start": 1, "end": 2, "nothing": True},
    "restore": {"to": 0, "partitions": ["*"]},
    "erase": {"columns": ["x"], "keys": [[1]]},
}
"""Options where there is no table, of operations whose first case would do or need more."""
ELSEWHERE: Mapping[str, str] = {
    "import_files": "its command imports one folder, its DAG all folders of the settings "
    "(tests/unit/airflow/test_imports.py)",
    "evolve": "SPELLED",
    "schema_fix": "SPELLED",
    "clone": "SPELLED",
    "commit": "SPELLED",
    "discard": "SPELLED",
}
"""Operations whose options are no fields of a command, and where they are played."""
_CHANGED = {"rename": {"ts": "at"}}
SPELLED: Sequence[tuple[str, Given, Sequence[str]]] = [
    ("EVOLVE", {"evolution": _CHANGED}, ["evolve", "t", "--lazy", "--rename", "ts=at"]),
    ("EVOLVE", {"evolution": {"drop": ["ts"]}}, ["evolve", "t", "--lazy", "--drop", "ts"]),
    ("EVOLVE", {"evolution": {"drop": ["no"]}}, ["evolve", "t", "--lazy", "--drop", "no"]),
    ("EVOLVE", {"evolution": {}}, ["evolve", "t", "--lazy"]),
    (
        "EVOLVE",
        {"evolution": {"widen": {"x": "DOUBLE"}}},
        ["evolve", "t", "--lazy", "--widen", "x=DOUBLE"],
    ),
    ("EVOLVE_PARTS", {"evolution": _CHANGED}, ["evolve", "t", "--rename", "ts=at"]),
    ("EVOLVE_PARTS", {"evolution": {"drop": ["ts"]}}, ["evolve", "t", "--drop", "ts"]),
    ("EVOLVE_PARTS", {"evolution": {"drop": ["no"]}}, ["evolve", "t", "--drop", "no"]),
    (
        "EVOLVE_PARTS",
        {"evolution": _CHANGED, "dry_run": True},
        ["evolve", "t", "--rename", "ts=at", "--dry-run"],
    ),
    (
        "SCHEMA_FIX",
        {"fixes": [{"column": "x", "type": "DOUBLE"}]},
        ["schema", "fix", "t", "--column", "x", "--type", "DOUBLE"],
    ),
    (
        "SCHEMA_FIX",
        {"fixes": [{"column": "x", "type": "DOUBLE"}], "all_parts": True},
        ["schema", "fix", "t", "--column", "x", "--type", "DOUBLE", "--all-parts"],
    ),
    (
        "SCHEMA_FIX",
        {"fixes": [{"column": "x", "rename": "y"}], "where_types": ["VARCHAR"]},
        ["schema", "fix", "t", "--column", "x", "--rename", "y", "--where-type", "VARCHAR"],
    ),
    ("COMMIT", {"id": "{change}"}, ["rewrite", "t", "--commit", "{change}"]),
    ("COMMIT", {"id": "nonsense"}, ["rewrite", "t", "--commit", "nonsense"]),
    ("DISCARD", {"id": "{change}"}, ["rewrite", "t", "--discard", "{change}"]),
    ("DISCARD", {"id": "nonsense"}, ["rewrite", "t", "--discard", "nonsense"]),
    ("CLONE", {}, ["clone", "t", "{target}"]),
    ("CLONE", {"history": True}, ["clone", "t", "{target}", "--history"]),
    ("CLONE", {"dry_run": True}, ["clone", "t", "{target}", "--dry-run"]),
]
"""Name in the registry, options, and the words of a command that say the same."""
UNSEEN: Mapping[str, frozenset[str]] = {
    "rewrite": frozenset({"first_try"}),  # of Airflow's retries
    "drop": frozenset({"expected"}),  # of a question
}
"""Fields that no person gives."""
OTHERWISE: Mapping[tuple[str, str], Sequence[str]] = {
    # A form has to name partitions, `*` for all.
    ("restore", str({"to": 0})): ["task"],
    # A plan proves by the footers that all rows lie outside; a run without one counts them.
    ("replace", str({"column": "x", "start": 5, "end": 6, "files": ["{rows}"]})): ["task"],
}
"""Operation and case -> doors with another answer, which is compared nowhere."""
