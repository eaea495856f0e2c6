"""Programs from the packages of the system (Debian), where a machine lacks them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import apt_get_words


def run_install(
    name: str, usage: str | None, arguments: list[str], install: Callable[[], object]
) -> int:
    """Run a tool whose only argument is ``install``; return 0, 1 after one sentence, or 2."""
    if arguments != ["install"]:
        sys.stderr.write((usage or "") + "\n")
        return 2
    try:
        install()
    except EnvironmentFaultError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 1
    return 0


def install(package: str, needed_for: str) -> None:
    """Install a package: as root, or by ``sudo`` where it asks for no password.

    Args:
        package: Debian's name.
        needed_for: subject of the error: ``tests of several schedulers need PostgreSQL``.

    Raises:
        EnvironmentFaultError: it cannot be installed here.
    """
    if (apt_get := apt_get_words()) is None:
        raise EnvironmentFaultError(
            f"{needed_for} and this machine has none",
            next_step=f"install it (Debian's package {package}) and run the same command again",
        )
    print(f"{package}: installing Debian's package", flush=True)
    for command in (
        [*apt_get, "update", "-qq"],
        [*apt_get, "install", "-y", "-qq", "--no-install-recommends", package],
    ):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise EnvironmentFaultError(
                f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}",
                next_step="repair what it says and run the same command again",
            )
