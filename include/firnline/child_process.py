"""The environment of child processes that handle untrusted bytes or SQL.

Such a process needs a Python and its libraries. The environment of an Airflow worker or a Spark
executor holds much more: keys of stores, connection strings, tokens. So variables are passed on
by an allow list.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_ALLOWED = frozenset(
    {
        # Paths of programs, libraries and temporary files.
        *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"),
        *("TMPDIR", "TMP", "TEMP"),
        # Language and time zone of messages.
        *("LANG", "LANGUAGE", "TZ"),
        # Options of this Python; PYTHONPATH is set below.
        *("PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE"),
        *("PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONNOUSERSITE", "VIRTUAL_ENV"),
        # Threads and memory of numeric libraries.
        *(
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "ARROW_DEFAULT_MEMORY_POOL",
            "MALLOC_ARENA_MAX",
            "LD_PRELOAD",
        ),
    }
)


_BEGIN = (
    "import sys; sys.path[:] = filter(None, sys.path); from runpy import run_module; "
    'run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)'
)


def own_python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours with this Python.

    Not ``-m``, which looks for modules in the current folder first: a file there that is named as
    one of ours, or as a library, would be run. A Python inside of another program has no command:
    then the first word is empty, and no process starts.
    """
    return [sys.executable or "", "-c", _BEGIN, module, *arguments]


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a child process: allowed variables, and this one's ``sys.path``.

    Args:
        environ: of this process; None: ``os.environ``.
    """
    given = os.environ if environ is None else environ
    kept = {name: given[name] for name in given if name in _ALLOWED or name.startswith("LC_")}
    # numpy's threads are not used, and spin on the cores when it is imported.
    return {"OPENBLAS_NUM_THREADS": "1", **kept, "PYTHONPATH": own_path()}


def own_path() -> str:
    """Return this process's ``sys.path`` as the ``PYTHONPATH`` of a child.

    The package may be a zip that Spark put on the path of this process.
    """
    return os.pathsep.join(filter(None, sys.path))
