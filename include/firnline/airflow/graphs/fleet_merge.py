"""### Start the merges of all tables in which there is something to merge.

For all tables with `schedule: fleet`, instead of a run for each of them by the clock, most of
which would find nothing. It runs by `fleet.schedule` (UTC, hourly) and by hand.

Its one task `plan` reads the logs of the tables, many at once, without Spark, and starts merges
where there is something to do: those first that save most requests of a scan per byte rewritten,
within `fleet.budget` and outside of `fleet.quiet_hours`. They are runs of `merge`, or of
`merge__TABLE` where a table has one. Its log and its XCom say which, and why others wait. A merge
that is queued or running is not started again, and no merge whose DAG is paused. Then it starts
what else is due and has `schedule: fleet`: `ttl` and `tombstone_cleanup` once a day, `verify` once
a week, each at a time of the table's own. At last it publishes the mirrors that lack something for
longer than `mirror.every`, in the quiet hours too.

**By hand:** `dry_run` only plans. `firnline fleet` shows the same in a shell.

**When it fails,** a table could not be read, Airflow refused a run, or a mirror could not be
published. All others were handled before that. The next run tries again.

**When a plan is out of date** nothing is lost: a merge plans again, under its lock, on the table as
it is then.
"""

from __future__ import annotations

from firnline.airflow.fleet import LONGEST, PlanFleet, fleet_dag
from firnline.airflow.overrides import Overrides
from firnline.settings.fleet import FleetSettings


def make(settings: FleetSettings, theirs: Overrides) -> None:
    """Make the DAG, with what users say of all DAGs."""
    with fleet_dag(settings, doc=__doc__, theirs=theirs):
        PlanFleet(task_id="plan", execution_timeout=LONGEST)
