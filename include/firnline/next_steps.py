"""Next steps of errors that several modules raise: what a user should do, in the imperative."""

from __future__ import annotations

WRITE_ANEW = (
    "delete the folder _delta_log and run `firnline mirror` again: the table's own log is "
    "not concerned"
)
DROP_IT = (
    "drop it in the catalog without its files and run `firnline mirror` again: the "
    "table's own log is not concerned"
)
UPGRADE_OR_RESTORE = (
    "upgrade firnline, if a newer one wrote it; else restore the log files that hold it "
    "from a backup"
)
WHO_WRITES = (
    "find out who writes to the bucket; a copy of the objects from before shows what was changed"
)
NEW_OR_AGAIN = "add --new to take the files that were not, or --again to have all rows twice"
CORRECT_COLUMNS = "correct partition_by, sort_by, cluster_by, primary_key, version or ttl"
WHO_DELETED = "find out who deleted it; a rebuild of the log would lack what it holds"
MANY_CLEANUPS = "try again; if it goes on, see whether several clean-ups run at once"
READ_AGAIN = "read again; if it persists, `firnline verify` lists what is missing"
NEW_TABLE = "make a new table with that partition_by and append the rows there"
GIVE_PARTITIONS = 'give partitions, such as ["ts_day=2024-03-*"], or ["*"] for all'
RESTORE_OR_MOVE = "restore the object from a backup, or move it out of _erase/"
MAY_DELETE = "see that the credentials may delete there and run it again"
REASONS_ABOVE = "see the reasons above; `firnline verify TABLE` looks for damage"
WIDEN = "leave them out or widen the interval; nothing was changed"
REPORT_UNCHANGED = "nothing was changed; report this with the log of the run"
PLAN_ANEW = "run it again: it plans on the columns that are there now"
CHECK_ENDPOINT = "try again when the store answers, and check the endpoint"
OTHERS_PUBLISHED = "try again: the mirror shows what they have published"
VERSIONS_EXPIRE = "run it again: versions behind a checkpoint expire"
PLANNED_ON_CURRENT = "run it again: it is planned on the current state"
STORE_LOG = "look into the store's own log for this request"
CAST_IT = "cast it to its intended type, or leave it out"
UPGRADE_TO_TOUCH = "upgrade firnline before you touch this table"
RESTORE_PART = "restore the part from a backup or rewrite it"
UPGRADE_TO_USE = "upgrade firnline before you use this table"
