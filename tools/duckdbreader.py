"""DuckDB with its extensions for Delta and Iceberg as a reader of mirrors.

    python -m tools.duckdbreader install    make its environment (220 MB, once for a clone)

It has an environment of its own: an extension runs with one version of DuckDB only, and the
product's is another one. Extensions come as packages of the index; DuckDB checks their signatures.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools import environments
from tools.system_packages import run_install

VERSION = "1.5.5"
EXTENSIONS = ("httpfs", "delta", "avro", "iceberg")
"""In the order of loading: each finds there what it would download."""
PACKAGES = (
    f"duckdb=={VERSION}",
    *(f"duckdb-extension-{name}=={VERSION}" for name in EXTENSIONS),
    "pytz==2026.6",  # without it DuckDB makes no Python value of a time with a zone
)


def ensure() -> Path:
    """Return the Python of the environment, made on first use.

    Raises EnvironmentFaultError: it cannot be made here.
    """
    return environments.ensure(f"duckdbreader-{VERSION}", PACKAGES)


def main(arguments: list[str]) -> int:
    """Run ``install``; return the exit code."""
    return run_install("duckdbreader", __doc__, arguments, ensure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
