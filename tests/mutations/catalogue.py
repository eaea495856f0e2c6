"""All mutations."""

from __future__ import annotations

from collections.abc import Mapping

from simulation.rules.catalogue import MUTATIONS
from tests.mutations.model import Mutation, Rule
from tests.mutations.sources.airflow import AIRFLOW
from tests.mutations.sources.changes import CHANGES
from tests.mutations.sources.cli import CLI
from tests.mutations.sources.erase import ERASE
from tests.mutations.sources.fence import FENCE
from tests.mutations.sources.foreign import FOREIGN
from tests.mutations.sources.kernel import KERNEL
from tests.mutations.sources.lost import LOST
from tests.mutations.sources.mirror import MIRROR
from tests.mutations.sources.moving import MOVING
from tests.mutations.sources.prepared import PREPARED
from tests.mutations.sources.properties import PROPERTIES
from tests.mutations.sources.protocol import PROTOCOL
from tests.mutations.sources.rows import ROWS
from tests.mutations.sources.spark import SPARK
from tests.mutations.sources.store import STORE
from tests.mutations.sources.what_if import WHAT_IF

AREAS: Mapping[str, tuple[Mutation, ...]] = {
    "The merge kernel": KERNEL,
    "The protocol": PROTOCOL,
    "The fence": FENCE,
    "Clients of log version 1": FOREIGN,
    "Lost objects": LOST,
    "Properties of a table": PROPERTIES,
    "Prepared changes": PREPARED,
    "Certificates of erases": ERASE,
    "Mirrors": MIRROR,
    "The feed of changes": CHANGES,
    "Moving tables": MOVING,
    "Rows that come in": ROWS,
    "The store": STORE,
    "The command line": CLI,
    "Other settings": WHAT_IF,
    "Airflow": AIRFLOW,
    "Spark": SPARK,
}
SOURCES = tuple(mutation for mutations in AREAS.values() for mutation in mutations)
RULES = tuple(Rule(name, mutation.seed) for name, mutation in MUTATIONS.items())
