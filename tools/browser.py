"""A browser for tests of the page, driven without a window.

python -m tools.browser install    from the system's packages, where there is none
"""

from __future__ import annotations

import shutil
import sys

from firnline.errors import EnvironmentFaultError
from tools.system_packages import install as install_package
from tools.system_packages import run_install

PACKAGE = "chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_program() -> str | None:
    """Return the path of a Chromium; None without one."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def install() -> str:
    """Return the path of a Chromium, installed from the system's packages if need be.

    Raises:
        EnvironmentFaultError: there is none, and it cannot be installed here.
    """
    if found := find_program():
        return found
    install_package(PACKAGE, "tests of the page need a browser")
    found = find_program()
    if found is None:
        raise EnvironmentFaultError(
            f"the package {PACKAGE} brought no browser",
            next_step="install Chromium where it is on the PATH",
        )
    return found


def main(arguments: list[str]) -> int:
    """Run ``install``; return the exit code."""
    return run_install("browser", __doc__, arguments, install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
