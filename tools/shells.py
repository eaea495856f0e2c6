"""The shells whose completion is tested: zsh and fish; bash is on every machine.

python -m tools.shells install    from the system's packages, where one is missing
"""

from __future__ import annotations

import shutil
import sys

from firnline.errors import EnvironmentFaultError
from tools.system_packages import install as install_package
from tools.system_packages import run_install

SHELLS = ("zsh", "fish")
"""Names of the programs, and of Debian's packages."""


def missing() -> list[str]:
    """Return the shells that are not on the PATH."""
    return [name for name in SHELLS if shutil.which(name) is None]


def install() -> None:
    """Install what is missing from the system's packages.

    Raises:
        EnvironmentFaultError: one is missing, and it cannot be installed here.
    """
    for name in missing():
        install_package(name, f"tests of completion need {name}")
    if left := missing():
        raise EnvironmentFaultError(
            f"the package {left[0]} brought no program {left[0]}",
            next_step=f"install {left[0]} where it is on the PATH",
        )


def main(arguments: list[str]) -> int:
    """Run ``install``; return the exit code."""
    return run_install("shells", __doc__, arguments, install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
