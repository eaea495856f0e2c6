"""Kinds of tables: most are plain, some have keys, tombstones of keys, or rows in clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from firnline.settings.load import TableSettings
from simulation import aging, proofs
from simulation.mix import Mix
from simulation.world import GRACE, KEY_STEP, ROOT, ROOT_FOR_ENGINES, SCHEMA, TICK, TTL

_ARROW = {
    "BIGINT": pa.int64(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
}
_SMALL = 700
"""Bytes of a full part in a clustered table: about five rows."""


@dataclass(frozen=True)
class Kind:
    """One kind of table."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, str] = field(default_factory=lambda: SCHEMA)
    users: str = "uvw"
    without: tuple[str, ...] = ()
    """Operations that such a table does not support."""
    target: int | None = None
    """``merge.target_size`` in bytes, below the minimum of the settings."""
    evolves: bool = False
    """True if it has one more column, which changes (``simulation.columns``)."""
    moves: bool = False
    """True if its layout changes (``simulation.layouts``)."""

    proven: bool = False
    """True if it has ``proofs.COLUMNS``, and kernels prove their rows."""

    updates: bool = False
    """True if its rows are updated (``simulation.updates``)."""

    @property
    def arrow(self) -> pa.Schema:
        """Return the columns of an append."""
        return pa.schema([(name, _ARROW[kind]) for name, kind in self.schema.items()])


_KEYS = {"primary_key": ["u"], "deleted": "d"}
_FORGOTTEN = TTL + GRACE + 100 * TICK
KINDS = {
    "plain": Kind("plain"),
    "columns": Kind("columns", evolves=True),
    "aging": Kind("aging", {"ttl": aging.TTL}, {**SCHEMA, **aging.COLUMNS}),
    "updated": Kind(
        "updated",
        schema={**SCHEMA, "s": "VARCHAR"},
        without=("restore", "replace", "evolve", "repartition", "analyze"),
        updates=True,
    ),
    "updated clusters": Kind(
        "updated clusters",
        {"cluster_by": ["u", "k"]},
        schema={**SCHEMA, "s": "VARCHAR"},
        without=("restore", "evolve", "repartition", "analyze"),
        target=_SMALL,
        updates=True,
    ),
    "updated and restored": Kind(
        "updated and restored",
        schema={**SCHEMA, "s": "VARCHAR"},
        without=("replace", "evolve", "repartition", "analyze"),
        updates=True,
    ),
    "updated keys": Kind(
        "updated keys",
        _KEYS,
        schema={**SCHEMA, "d": "BOOLEAN", "s": "VARCHAR"},
        users="uvwxyz",
        without=("restore", "replace", "evolve", "repartition", "analyze"),
        updates=True,
    ),
    # Without an order, so that markers state only what ``statistics`` asks for.
    "layouts": Kind("layouts", {"sort_by": []}, without=("restore",), moves=True),
    "clustered": Kind("clustered", {"cluster_by": ["u", "k"]}, target=_SMALL),
    "keys": Kind("keys", _KEYS, {**SCHEMA, "d": "BOOLEAN"}, users="uvwxyz", without=("replace",)),
    "versions": Kind(
        "versions",
        {**_KEYS, "version": "k", "deleted_keep": f"{_FORGOTTEN}ms"},
        {**SCHEMA, "d": "BOOLEAN"},
        users="uvwxyz",
        without=("replace",),
    ),
}
"""Kinds of tables by name."""


def _proven(name: str, like: str, **settings: Any) -> Kind:
    known = KINDS[like]
    schema = {**known.schema, **proofs.COLUMNS}
    # Of the seeds' mixes some are of kinds that do more, which these do not need.
    without = (*known.without, "evolve", "repartition", "analyze")
    return replace(
        known,
        name=name,
        settings={**known.settings, **settings},
        schema=schema,
        without=without,
        proven=True,
    )


KINDS |= {
    "proven": _proven("proven", "plain"),
    # Later appends have larger numbers, so most groups can be cut.
    "proven slices": _proven("proven slices", "clustered", cluster_by=["k", "u"]),
    "proven keys": _proven("proven keys", "keys"),
}


def settings_of(
    mix: Mix,
    ttl: int = TTL,
    grace: int = GRACE,
    *,
    partition_by: Sequence[str] = ("p",),
    statistics: Sequence[str] = (),
) -> TableSettings:
    """Return the table's settings in a seed."""
    kind = KINDS[mix.kind]
    mirrored = mix.mirror and "primary_key" not in kind.settings
    found = TableSettings.model_validate(
        {
            "name": "t",
            "root": ROOT_FOR_ENGINES if mix.catalog else ROOT,
            "partition_by": list(partition_by),
            "sort_by": ["u", "k"],
            "statistics": list(statistics),
            "deletes": "lazy" if mix.lazy and (mix.vectors or not mirrored) else "eager",
            "mirror": [_mirror(mix)] if mirrored else [],
            "append": {"ttl": f"{ttl}ms", **({"once": f"{mix.once_ms}ms"} if mix.once_ms else {})},
            "commit_ttl": f"{ttl}ms",
            "cleanup": {"grace": f"{grace}ms"},
            "orphan_grace": "24h",
            "merge": {
                "min_inputs": 2,
                "commit_every": "0s",
                "max_parts_per_group": 4,
                # Elsewhere the kernels of rows compute no digest, though appends state theirs.
                "proof": "rows" if kind.proven else "counts",
                "slots": mix.merges,
            },
            "rewrite": {"max_removed_fraction": 1},
            **kind.settings,
        }
    )
    if kind.target is None:
        return found
    # Groups above one part are sliced, where the statistics of their parts tell users apart.
    sizes = {"target_size": kind.target, "split_above": kind.target}
    merge = found.merge.model_copy(update=sizes)
    return found.model_copy(update={"merge": merge})


def _mirror(mix: Mix) -> dict[str, Any]:
    if mix.catalog:
        how = {"py-catalog-impl": "simulation.catalog.SimCatalog"}
        return {"iceberg": {"catalog": "lake", "name": "lake.{table}", "properties": how}}
    return {"delta": {"deletes": "vectors" if mix.vectors else "wait"}}


def is_tombstone(k: int) -> bool:
    """Return True if an appended row is a key tombstone, in a table that has them."""
    return k // KEY_STEP % 4 == 3
