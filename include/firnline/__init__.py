"""Tables of Parquet files on object storage: append to them, read them, keep them in shape.

    import firnline

    flights = "file:///tmp/flights"
    firnline.append(flights, [{"carrier": "UA", "delay": 90}, {"carrier": "AA", "delay": 5}])
    firnline.merge(flights)
    firnline.scan(flights, where="delay > 60").to_arrow()

A table is a name of the settings file, a root URL, or what ``open_table`` returned. Functions do
what the command of their name does, and ``plan_...`` only plans it. All errors are
``FirnlineError``; the command ``firnline --help`` lists the rest.
"""

# Each name is imported when it is first used: DAG files import this module.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from firnline import spark as spark
    from firnline.api import (
        append,
        append_files,
        append_rows,
        cleanup,
        delete,
        drop,
        drop_table,
        end_hold,
        erase,
        erasures,
        history,
        hold,
        holds,
        import_files,
        list_tables,
        merge,
        open_table,
        plan_cleanup,
        plan_delete,
        plan_drop,
        plan_drop_table,
        plan_end_hold,
        plan_erase,
        plan_hold,
        plan_import_files,
        plan_merge,
        plan_restore,
        plan_rewrite,
        plan_ttl,
        plan_update,
        publish_mirrors,
        restore,
        rewrite,
        ttl,
        update,
        verify,
        what_if,
    )
    from firnline.errors import FirnlineError
    from firnline.operations.mirror.appender import Appender
    from firnline.operations.options import (
        CleanupOptions,
        DeleteOptions,
        DropOptions,
        DropTableOptions,
        EndHoldOptions,
        EraseOptions,
        HoldOptions,
        ImportOptions,
        MergeOptions,
        RestoreOptions,
        RewriteOptions,
        TtlOptions,
        UpdateOptions,
        VerifyOptions,
        WhatIfOptions,
    )
    from firnline.read.changes import changes
    from firnline.read.scan import Scan, scan
    from firnline.table import Table

__all__ = [
    "Appender",
    "CleanupOptions",
    "DeleteOptions",
    "DropOptions",
    "DropTableOptions",
    "EndHoldOptions",
    "EraseOptions",
    "FirnlineError",
    "HoldOptions",
    "ImportOptions",
    "MergeOptions",
    "RestoreOptions",
    "RewriteOptions",
    "Scan",
    "Table",
    "TtlOptions",
    "UpdateOptions",
    "VerifyOptions",
    "WhatIfOptions",
    "append",
    "append_files",
    "append_rows",
    "changes",
    "cleanup",
    "delete",
    "drop",
    "drop_table",
    "end_hold",
    "erase",
    "erasures",
    "history",
    "hold",
    "holds",
    "import_files",
    "list_tables",
    "merge",
    "open_table",
    "plan_cleanup",
    "plan_delete",
    "plan_drop",
    "plan_drop_table",
    "plan_end_hold",
    "plan_erase",
    "plan_hold",
    "plan_import_files",
    "plan_merge",
    "plan_restore",
    "plan_rewrite",
    "plan_ttl",
    "plan_update",
    "publish_mirrors",
    "restore",
    "rewrite",
    "scan",
    "ttl",
    "update",
    "verify",
    "what_if",
]

_FROM = {
    "Appender": "firnline.operations.mirror.appender",
    "FirnlineError": "firnline.errors",
    "Scan": "firnline.read.scan",
    "Table": "firnline.table",
    "changes": "firnline.read.changes",
    "scan": "firnline.read.scan",
}
"""Name -> module, for what is neither a function of ``api`` nor a struct of options."""


# Type checkers do not see it: they would take any name for one of the package.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
        if name == "__version__":
            return import_module("importlib.metadata").version("firnline")
        if name == "spark":
            return import_module("firnline.spark")
        if name not in __all__:
            raise AttributeError(f"module 'firnline' has no attribute {name!r}")
        options = "firnline.operations.options" if name.endswith("Options") else "firnline.api"
        return getattr(import_module(_FROM.get(name, options)), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__", "spark"})
