"""Finds the command for a word by which other systems call it: ``vacuum`` is ``cleanup``."""

from __future__ import annotations

import re

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
    "`firnline settings check` lists the tables of the settings file, and `firnline health` says "
    "how they are"
)
_HELP = "`firnline --help` lists the commands, and `firnline COMMAND --help` explains one"
_READ = "`firnline read TABLE` prints rows"
_WORDS = {
    **dict.fromkeys(
        ["compact", "compaction", "optimize", "binpack", "bin-pack", "cluster"], _MERGE
    ),
    **dict.fromkeys(
        ["vacuum", "gc", "clean", "clean-up", "expire", "expire-snapshots", "purge"], _CLEANUP
    ),
    **dict.fromkeys(["undo", "revert", "rollback", "undelete"], _RESTORE),
    **dict.fromkeys(["status", "stats", "check", "info"], _HEALTH),
    **dict.fromkeys(["list", "ls", "tables"], _TABLES),
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
        ["forget", "gdpr"],
        "`firnline erase --help` says how rows go for good, with a proof",
    ),
    **dict.fromkeys(
        ["update", "upsert"],
        "`firnline rewrite --help` says how rows are changed; of a table with a primary_key an "
        "append replaces them",
    ),
    **dict.fromkeys(
        ["alter", "rename", "add-column", "drop-column"],
        "`firnline evolve TABLE` adds, widens, renames and drops columns",
    ),
    **dict.fromkeys(
        ["move", "mv"],
        "copy the folder, then `firnline relocate TABLE` gives the copy its new place",
    ),
    **dict.fromkeys(["log", "transactions"], "`firnline history TABLE` lists what was done"),
    **dict.fromkeys(["retention", "expire-rows"], "`firnline ttl TABLE` drops old partitions"),
    **dict.fromkeys(
        ["fsck", "repair"],
        "`firnline verify TABLE` finds what is wrong, and says what mends it",
    ),
}
_UNKNOWN = re.compile(r"No such command '(?P<word>[^']*)'")


def instead(message: str) -> str | None:
    """Return which command does what an unknown one is asked to do; None if nobody can tell.

    Args:
        message: of the error for a command line that does not parse.
    """
    found = _UNKNOWN.match(message)
    return None if found is None else _WORDS.get(found["word"].lower().replace("_", "-"))
