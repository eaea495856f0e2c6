"""Finds the command for a word by which other systems call it: ``vacuum`` is ``cleanup``.

And the option for the name that another command has for the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_MERGE = "`firnline merge TABLE` makes few large parts of many small ones"
_CLEANUP = (
    "`firnline cleanup TABLE` deletes dead parts, and `firnline sweep TABLE` objects that nothing "
    "names"
)
_RESTORE = (
    "`firnline restore --help` says how to undo; `firnline history TABLE` has the transactions"
)
_HEALTH = "`firnline health` says how all tables are, and `firnline parts TABLE` how one is"
_TABLES = (
    "`firnline tables URL` lists the tables below a bucket or folder, and `firnline health` says "
    "how those of the settings file are"
)
_HELP = "`firnline --help` lists the commands, and `firnline COMMAND --help` explains one"
_READ = "`firnline read TABLE` prints rows"
_EVOLVE = "`firnline evolve TABLE` widens, renames and drops columns"
_ADD = "the first append that has a new column adds it"
_DELETE = (
    "`firnline delete TABLE --where SQL` deletes the rows of a condition, and `firnline drop TABLE "
    "PARTITION` whole partitions"
)
_ALL = (
    "`firnline drop TABLE` lists the partitions, and drops those that it is given, with all their "
    "rows"
)
_END = (
    "`firnline drop-table TABLE` drops a whole table, and run again after the grace deletes every "
    "object of it"
)
_CHANGES = "`firnline changes TABLE --since 41` shows the rows that came and went after a moment"
_ONE_EACH = (
    "with a primary_key readers see one row of each key, and `firnline merge TABLE` keeps no "
    "other; `firnline rewrite TABLE --sql 'select distinct * from _rows'` takes equal rows out of "
    "each partition"
)
_SETTINGS = (
    "`firnline settings show TABLE` prints the settings of a table, `firnline settings check` says "
    "whether they are right, and `firnline init` writes them"
)
_EVERYWHERE = "`firnline erasure run` erases the people who asked for it from all tables"
_PARTS = "`firnline parts TABLE` counts rows, parts and bytes of each partition"
_WORDS = {
    **dict.fromkeys(
        ["compact", "compaction", "optimize", "binpack", "bin-pack", "cluster"], _MERGE
    ),
    **dict.fromkeys(
        ["vacuum", "gc", "clean", "clean-up", "expire", "expire-snapshots", "purge"], _CLEANUP
    ),
    "prune": f"{_CLEANUP}; `firnline ttl TABLE` drops old partitions",
    **dict.fromkeys(["remove", "rm", "del", "delete-rows", "delete-where"], _DELETE),
    **dict.fromkeys(["truncate", "clear", "empty", "drop-partition"], _ALL),
    **dict.fromkeys(["destroy", "delete-table", "remove-table", "droptable"], _END),
    **dict.fromkeys(["deduplicate", "dedupe", "dedup", "distinct", "unique"], _ONE_EACH),
    **dict.fromkeys(["count", "rows", "size", "du", "files", "partitions"], _PARTS),
    **dict.fromkeys(["tail", "cdc", "feed", "stream", "watch", "changelog"], _CHANGES),
    "sql": f"{_READ} of a condition; `firnline.scan(TABLE).duckdb()` in Python takes any query",
    **dict.fromkeys(
        ["config", "configure", "configuration", "setting", "set", "tblproperties"], _SETTINGS
    ),
    **dict.fromkeys(
        ["migrate", "convert", "upgrade"],
        "`firnline import TABLE URL` turns a folder of Parquet files into a table, and `firnline "
        "relocate TABLE` follows one that was moved; a new version of firnline needs no command",
    ),
    **dict.fromkeys(
        ["time-travel", "timetravel", "travel", "as-of", "at"],
        "`firnline read TABLE --at TIME` prints a former state, and `firnline restore --help` says "
        "how to go back to one",
    ),
    **dict.fromkeys(
        ["version", "versions"],
        "`firnline --version` prints that of the program, and `firnline history TABLE` lists those "
        "of a table, its transactions",
    ),
    **dict.fromkeys(["backfill", "recompute"], "`firnline rewrite TABLE` computes partitions anew"),
    **dict.fromkeys(
        ["overwrite", "insert-overwrite"],
        "`firnline replace --help` says how new rows take the place of an interval",
    ),
    **dict.fromkeys(["undo", "revert", "rollback", "undelete"], _RESTORE),
    **dict.fromkeys(["status", "stats", "check", "info"], _HEALTH),
    **dict.fromkeys(["list", "ls", "find", "show-tables"], _TABLES),
    **dict.fromkeys(["help", "man"], _HELP),
    **dict.fromkeys(["select", "query", "show", "cat", "head", "scan", "export"], _READ),
    **dict.fromkeys(
        ["describe", "columns", "ddl"], "`firnline schema TABLE` lists the columns of a table"
    ),
    **dict.fromkeys(
        ["insert", "write", "load", "copy", "ingest"],
        "`firnline append TABLE FILE` adds files of this machine, and `firnline import TABLE URL` "
        "those of a bucket",
    ),
    **dict.fromkeys(
        ["create", "new"],
        "the first `firnline append TABLE FILE` makes a table, and `firnline init` writes its "
        "settings",
    ),
    **dict.fromkeys(
        ["forget", "gdpr", "person", "persons", "people"],
        f"`firnline erase --help` says how rows go for good, with a proof; {_EVERYWHERE}",
    ),
    **dict.fromkeys(
        ["upsert"],
        "an append replaces rows of a table with a primary_key, and `firnline update --help` says "
        "how rows get new values by a condition",
    ),
    **dict.fromkeys(
        ["alter", "rename", "drop-column", "rename-column", "change-column"], f"{_EVOLVE}; {_ADD}"
    ),
    "add-column": f"{_ADD}, by `firnline append TABLE FILE` as by a service; {_EVOLVE}",
    **dict.fromkeys(
        ["move", "mv"],
        "copy the folder, then `firnline relocate TABLE` gives the copy its new place",
    ),
    **dict.fromkeys(
        ["simulate", "tune", "advise", "suggest"],
        "`firnline what-if TABLE --suggest` names the cheapest settings of merges",
    ),
    **dict.fromkeys(["log", "transactions"], "`firnline history TABLE` lists what was done"),
    **dict.fromkeys(["retention", "expire-rows"], "`firnline ttl TABLE` drops old partitions"),
    **dict.fromkeys(
        ["fsck", "repair"],
        "`firnline verify TABLE` finds what is wrong, and says what mends it",
    ),
}
_BEGINS = ("--from", "--since", "--start")
_ENDS = ("--until", "--end", "--to")
_PARTITIONS = ("--partitions", "--partition")
_LAST = ("--until", "--end")
"""Ends of an interval as commands call them; their ``--to`` is something else."""
_NO_OPTION = re.compile(r"No such option: (?P<option>--[\w-]+)")
_UNKNOWN = re.compile(r"No such command '(?P<word>[^']*)'")


def instead(message: str, options: Collection[str] = ()) -> str | None:
    """Return what to write in the place of an unknown command or option; None if nobody can tell.

    Args:
        message: of the error for a command line that does not parse.
        options: of the command that is called, and its arguments by their names.
    """
    option = _NO_OPTION.match(message)
    if option is not None and option["option"] == "--all-tables":
        return _EVERYWHERE
    if option is not None:
        return _other_name(option["option"], options)
    match = _UNKNOWN.match(message)
    return None if match is None else _WORDS.get(match["word"].lower().replace("_", "-"))


def _other_name(option: str, options: Collection[str]) -> str | None:
    """Return the name that a command has for what another one calls ``option``."""
    last = next((each for each in _LAST if each in options), None)
    other = None
    if option in _PARTITIONS:
        other = next((each for each in _PARTITIONS if each in options), None)
        if other is None and "partitions" in options:
            return "this command takes partitions without an option, behind the table"
    elif last is not None and option in _ENDS:
        other = last
    elif last is not None and option in _BEGINS:
        other = next((each for each in _BEGINS if each in options), None)
    return None if other is None else f"this command calls it {other}"
