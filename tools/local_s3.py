"""An S3 for a machine that has no bucket: `make s3`.

    python -m tools.local_s3 [--port 9000] [--folder .firnline/s3]

The server of the tests in the foreground until Ctrl-C, with a bucket `lake` and the keys of its
first start. It prints what lets a shell in, and writes the same to FOLDER/env, for its owner only.
Ctrl-C ends the server and leaves the objects, so that the next start has the same tables. It needs
Go for the first start, and of Python the standard library alone.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import REPO
from tools.s3server import S3Server, new_keys

FOLDER = REPO / ".firnline" / "s3"
BUCKET = "lake"
"""The bucket of docs/tutorial.md."""
PORT = 9000
"""That of the tutorial."""
EXPORTED = (
    *("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    # The second for boto3, which does not know the first.
    *("AWS_REGION", "AWS_DEFAULT_REGION"),
)
"""What firnline, boto3, Spark's connector and Airflow need of ``S3Server.env``."""
_LOOK_SECONDS = 0.2


def prepared(folder: Path, port: int) -> S3Server:
    """The server of a folder, not started: its objects and its keys are those of the last time.

    Raises EnvironmentFaultError if the folder can be none, or holds other things by these names.
    """
    with _written_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        server = S3Server(folder / "objects", BUCKET, port, _keys(folder / "keys"))
        server.make_bucket(BUCKET)
        return server


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other servers away from a folder until the end, or that of this process.

    Two would serve the same objects, and ``env_file`` would name the one that may end first.
    Raises EnvironmentFaultError if there is one already.
    """
    with contextlib.ExitStack() as stack:
        with _written_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / "lock").open("w", encoding="utf-8"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFaultError(
                f"an S3 over {folder} runs already",
                next_step=f"let a shell into it by `. {shlex.quote(str(env_file(folder)))}`, end "
                "it with Ctrl-C in its terminal, or give this one another --folder",
            ) from None
        yield


@contextlib.contextmanager
def _written_to(folder: Path) -> Iterator[None]:
    """Say in a sentence that something in the folder of a server cannot be made or read."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFaultError(
            f"{folder} cannot be the folder of an S3: {error.strerror}: {error.filename}",
            next_step="give a folder that you may write to: `python -m tools.local_s3 --folder "
            "FOLDER`",
        ) from None


def port_of(text: str) -> int:
    """The port that a user gave. Raises EnvironmentFaultError for what is none."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 65_536:
        raise EnvironmentFaultError(
            f"{text!r} is not a port: those are 1 to 65535",
            next_step="take another, such as `make s3 PORT=9001`",
        )
    return int(text)


def _keys(file: Path) -> tuple[str, str]:
    """The keys in a file that only its owner can read; made if there are none."""
    held = file.read_text(encoding="utf-8").split() if file.exists() else []
    if len(held) == 2:
        return held[0], held[1]
    keys = new_keys()
    _write_for_owner(file, "\n".join(keys) + "\n")
    return keys


def _write_for_owner(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def env_file(folder: Path) -> Path:
    """The file that a shell reads with ``.`` to be let in."""
    return folder / "env"


def exports(server: S3Server) -> str:
    """Lines for a shell with which AWS clients find a running server and are let in."""
    env = server.env()
    return "".join(f"export {name}={shlex.quote(env[name])}\n" for name in EXPORTED)


def let_in(server: S3Server, folder: Path) -> str:
    """Write ``env_file`` of a running server; return what tells a user how to get in."""
    lines = exports(server)
    with _written_to(folder):
        _write_for_owner(env_file(folder), lines)
    return (
        f"An S3 at {server.endpoint} with the bucket {server.bucket}, until Ctrl-C.\n"
        f"In another terminal:\n\n{lines}\n"
        f"or, the same: . {shlex.quote(str(env_file(folder)))}\n\n"
        f"Root of a table: {server.url('events')}, or any other prefix of {server.url()}\n"
        f"The objects are files in {server.data_dir} and stay after Ctrl-C;\n"
        f"`rm -r {shlex.quote(str(folder))}` removes them and the keys.\n"
    )


def serve(folder: Path, port: int) -> None:
    """Run until KeyboardInterrupt. Raises EnvironmentFaultError."""
    with alone(folder), prepared(folder, port) as server:
        sys.stdout.write(let_in(server, folder))
        sys.stdout.flush()
        while server.runs:
            time.sleep(_LOOK_SECONDS)
        raise EnvironmentFaultError("the S3 server ended by itself", next_step=f"read {server.log}")


def main(arguments: list[str]) -> int:
    """0 after Ctrl-C, which is how it is meant to end; 1 after one sentence."""
    parser = argparse.ArgumentParser(prog="python -m tools.local_s3", description=__doc__)
    parser.add_argument("--port", default=str(PORT), help="of the loopback interface")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of objects and keys")
    given = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        serve(given.folder.resolve(), port_of(given.port))
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # a terminal that is closed
            print("\nended; the objects stay", flush=True)
    except EnvironmentFaultError as error:
        sys.stderr.write(f"s3: {error}\n")
        return 1
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Once: what ends the server must not be ended itself.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
