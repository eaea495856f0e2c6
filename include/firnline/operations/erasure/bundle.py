"""Write what proves the erasure of one request: of each table its certificate, and what is outside.

The end of the request states the digest of each certificate, and each table's certificates are in a
chain of their own; the program beside them checks both against a copy of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from firnline.errors import UsageError
from firnline.operations.erase.bundle import bundle
from firnline.operations.erase.run import OUTSIDE
from firnline.operations.erasure.folder import Standing
from firnline.operations.erasure.look import look_at_table
from firnline.operations.erasure.run import People
from firnline.table import Table

OUTSIDE_FILE = "outside.txt"


def bundle_of(people: People, request: str) -> dict[str, bytes]:
    """Return the files of a bundle by their paths: ``flights/verify_table.py``.

    Requests: those of ``RequestFolder.requests``; for each table of the request those of
    ``erase.bundle.bundle``, and while the request is open of ``look.look_at_table``.

    Raises UsageError: there is no such request, or it was erased nowhere yet.
    """
    standing = people.folder.one(request)
    files: dict[str, bytes] = {"request.json": _json(standing.request)}
    if standing.closed is not None:
        files["closed.json"] = _json(standing.closed)
    certified = dict(_certificates(people, standing))
    if not certified:
        raise UsageError(
            f"request {request} is erased from no table",
            next_step="`firnline erasure run` erases what waits",
        )
    tables = {name: people.opens(name) for name in certified}
    for name, table in tables.items():
        found = bundle(table, certified[name])
        files |= {f"{name}/{file}": data for file, data in found.items()}
    lines = _outside(people, standing, list(tables.values()))
    files[OUTSIDE_FILE] = "".join(f"{line}\n" for line in lines).encode()
    return files


def _certificates(people: People, standing: Standing) -> Iterator[tuple[str, str]]:
    """Yield each table of a request with its certificate."""
    if standing.closed is not None:
        for each in standing.closed.tables:
            yield each.table, each.certificate
        return
    for name in people.names:
        look = look_at_table(people.opens(name), people.folder, [standing.request])
        step = look.step(standing.request.id)
        if step is not None and step.certificate is not None:
            yield name, step.certificate


def _outside(people: People, standing: Standing, tables: Sequence[Table]) -> Iterator[str]:
    """Yield what no certificate speaks of, a line each."""
    yield "No certificate speaks of:"
    yield from (f"- {place}" for place in OUTSIDE)
    for table in tables:
        settings = table.settings
        if settings.imports is not None:
            sources = ", ".join(map(str, settings.imports.source))
            yield f"- {settings.name}: rows were imported from {sources}"
        if settings.mirrors:
            names = ", ".join(settings.mirrors)
            yield f"- {settings.name}: copies that readers of its mirrors ({names}) have made"
    for name in standing.request.without:
        yield f"- table {name}, which was left out when the request was taken"
    closed = standing.closed
    for name in people.unstated if closed is None else closed.unstated:
        yield f"- table {name}, of which nobody has said whether it has rows of people"


def _json(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
