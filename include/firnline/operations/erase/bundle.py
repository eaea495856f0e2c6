"""Write what an auditor gets: certificates as they are stored, witnesses, and a program.

The program (``firnline.verify_table``) needs no firnline. It checks these and a copy of the table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import msgspec

from firnline.errors import UsageError
from firnline.operations.erase.certificate import Certificate, list_certificates, stored
from firnline.operations.erase.digests import witness
from firnline.state.history import newest_head
from firnline.state.witness import Witness
from firnline.table import Table

PROGRAM = "verify_table.py"
WITNESSES = "witnesses.txt"


def bundle(table: Table, erase: str | None) -> dict[str, bytes]:
    """Return the files of a bundle by their names.

    Requests: a LIST and a GET for the newest transaction; 1 or 2 GET for each certificate, and a
    LIST if all are asked for.

    Args:
        table: that is to be checked.
        erase: id of a certificate; None: all that are there.

    Raises UsageError: as of ``certificate.stored``.
    """
    erases = [erase] if erase is not None else _written(table)
    certificates = {f"{each}.json": stored(table, each) for each in erases}
    head = newest_head(table)
    name = table.settings.name
    lines = [] if head is None else [str(Witness(name, head.seq, head.digest))]
    for data in certificates.values():
        certificate = msgspec.json.decode(data, type=Certificate)
        if certificate.status == "complete" and certificate.sha256:
            lines.append(str(witness(name, certificate)))
    noted = {WITNESSES: "".join(f"{line}\n" for line in lines).encode()} if lines else {}
    return {PROGRAM: files("firnline").joinpath(PROGRAM).read_bytes(), **noted, **certificates}


def _written(table: Table) -> list[str]:
    listed = list_certificates(table)
    return [each.id for each in listed if each.status in ("complete", "waiting")]


def check_free(folder: Path) -> None:
    """Raise UsageError unless a folder is new or empty: nothing that lies there is replaced."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not an empty folder", next_step="name one that is new for the bundle"
        )


def write(folder: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write the files of a bundle into a folder, which is made. Returns their paths.

    Args:
        folder: new, or empty.
        contents: of each file, by its name, or its path below the folder.

    Raises UsageError: the folder is not empty, or cannot be written.
    """
    check_free(folder)
    paths = []
    try:
        for name, data in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(data)
            paths.append(path)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"the bundle cannot be written into {folder}: {why}",
            next_step="name a folder that can be written",
        ) from None
    return tuple(paths)
