"""``firnline certificate``: the certificates of erases, and objects that may still hold keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.files import local_path
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.progress import working
from firnline.pages import Column
from firnline.state.witness import CertificateWitness
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.operations.erase.certificate import Certificate
    from firnline.table import Table

commands = typer.Typer()
_SHOWN = 20
_LIMITS = (
    "It speaks of the objects of this table. Folders that rows were imported from, versions that "
    "the bucket keeps, backups, copies, what readers of mirrors have stored, and other tables are "
    "not seen from here."
)
_STATUS = {
    "planned": "planned: not committed, or its run is still under way",
    "waiting": "waiting: the rows are gone for readers, and objects remain",
    "complete": "complete: no part, version or orphan of the table holds a row that was erased",
    "void": "void: it was never committed, and nothing was erased by it",
}


@command(
    commands,
    "certificate",
    [
        "firnline certificate flights",
        "firnline certificate flights 019aa4d8-7b6e-7c3a-9f00-5d1c2b3a4f5e",
        "firnline certificate flights 019aa4d8-7b6e-7c3a-9f00-5d1c2b3a4f5e --json",
        "firnline certificate flights 019aa4d8-… --keys tailnums.csv --secret 5be1…",
        "firnline certificate flights --bundle for-the-auditor",
    ],
)
def certificate(
    table: TableArgument,
    erase: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="Certificate, as the report of the erase names it; without it all are listed.",
        ),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="The file of keys of that erase, or of one of its requests (`firnline erasure "
            "show`), with --secret: shows that the certificate is theirs, and lets statistics "
            "decide after the log has forgotten them.",
        ),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(
            "--secret",
            metavar="HEX",
            help="What the report of the erase, or the answer to the request, told.",
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="FOLDER",
            help="Write into a new folder: the certificate as it is stored (without an ID all), "
            "witnesses, and a program of one file that checks a copy of the table without "
            "firnline.",
        ),
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Complete and show the certificate of an erase, or list all.

    After the grace it deletes the parts that the erase replaced, if clean-up has not, and looks
    for every object that may still hold a key. Ends with exit code 0 also while it waits: the
    status says so.
    """
    opened = open_target(table, settings)
    require_table(opened)
    name = opened.settings.name
    from firnline.operations.erase.proof import shown_keys, shown_request

    shown = shown_keys(erase, keys, secret)
    folder = None if bundle is None else _folder(bundle)
    if erase is None:
        from firnline.operations.erase.certificate import list_certificates

        listed = [{"id": c.id, "status": c.status} for c in list_certificates(opened)]
        more = {} if folder is None else {"bundle": _bundled(opened, None, folder)}
        output.show({"table": name, "certificates": listed, **more}, as_json, _render_list)
        return
    from firnline.operations.erase.completion import complete_certificate

    with (
        when_stopped(
            "stopped; what was deleted belongs to no snapshot",
            next_step="run the same command again",
        ),
        working("completing the certificate of", name, opened.clock, silent=as_json),
    ):
        completed = complete_certificate(opened, erase, identity(opened), shown)
    bundled = {} if folder is None else {"bundle": _bundled(opened, erase, folder)}
    asked = None if shown is None else shown_request(opened, completed, shown)
    proof = {"shown": shown is not None, "shown_request": asked}
    told = {"witness": _witness(name, completed), **proof, **bundled}
    output.show(completed.to_json() | told, as_json, _render)


def _folder(given: Path) -> Path:
    """Return the folder of a bundle, before anything is done. Raises UsageError."""
    from firnline.operations.erase.bundle import check_free

    folder = local_path(given, "--bundle")
    check_free(folder)
    return folder


def _bundled(table: Table, erase: str | None, folder: Path) -> list[str]:
    """Write a bundle; return the paths of its files."""
    from firnline.operations.erase.bundle import bundle, write

    return [str(path) for path in write(folder, bundle(table, erase))]


def _witness(name: str, erased: Certificate) -> str | None:
    """Return the line to note outside of the bucket, of a certificate that is complete."""
    if erased.status != "complete" or not erased.sha256:
        return None
    return str(CertificateWitness(name, erased.id, erased.sha256))


def _render_list(data: dict[str, Any]) -> None:
    if data["certificates"]:
        rows = ([each["id"], each["status"]] for each in data["certificates"])
        output.table([Column("certificate"), Column("status")], rows)
    else:
        output.line(f"Nothing was ever erased from {data['table']}.")
    _render_bundle(data)


def _render_bundle(data: dict[str, Any]) -> None:
    if "bundle" not in data:
        return
    output.line()
    output.line("Give these to whoever is to check a copy of the table's folder:")
    for path in data["bundle"]:
        output.plain(path)


def _render(data: dict[str, Any]) -> None:
    number, replaced, run = output.number, data["replaced"], data["run"]
    who = run.get("user") or run.get("run_id") or "?"
    rows = [
        ("certificate", data["id"]),
        ("table", f"{data['table']}  ({data['root']})"),
        ("status", _STATUS[data["status"]]),
        ("keys", f"{number(data['keys'])} of {', '.join(data['columns'])}"),
        ("SHA-256" if data["version"] == 1 else "HMAC-SHA256", data["digest"]),
        ("asked by", f"{who}, {output.when(data['planned_ms'])}"),
    ]
    if run.get("approved_by"):
        rows.append(("approved by", run["approved_by"]))
    if replaced is not None:
        when = output.when(replaced["t"])
        rows.append(("replaced", f"{when} by transaction {number(replaced['seq'])}"))
    if data["completed_ms"] is not None:
        rows.append(("complete", output.when(data["completed_ms"])))
    if data["link"] is not None:
        rows.append(("number", f"{number(data['link']['number'])} of this table's erases"))
    if data["shown"]:
        rows.append(("proven", _proven(data)))
    output.pairs(rows)
    output.line()
    _render_parts(data["parts"], replaced)
    if data["remaining"]:
        output.pairs((_what(entry), _why(entry)) for entry in data["remaining"])
    else:
        output.line("Nothing remains.")
    output.line()
    if data["witness"] is not None:
        output.line("Note this outside of the bucket: with it, verify finds a forged certificate.")
        output.plain(data["witness"])
        output.line()
    output.line(_LIMITS)
    _render_bundle(data)


def _proven(data: dict[str, Any]) -> str:
    request, count = data["shown_request"], len(data["requests"])
    if request is None:
        return "its keys are those that were shown"
    rest = f", and those of {counted(count - 1, 'other request')}" if count > 1 else ""
    return f"the file that was shown is that of request {request}; its keys are of it{rest}"


def _render_parts(parts: list[dict[str, Any]], replaced: dict[str, Any] | None) -> None:
    if not parts:
        output.line("No part held a key.")
        output.line()
        return
    number = output.number
    columns = [
        Column("part that held keys", wrap=True),
        Column("rows", number=True),
        Column("object deleted"),
    ]
    rows = [
        [_name(part["key"]), number(part["rows"]), _gone(part, replaced)] for part in parts[:_SHOWN]
    ]
    total = [
        f"{number(len(parts))} in all",
        number(sum(part["rows"] for part in parts)),
        f"{number(sum('gone_ms' in part for part in parts))} of them",
    ]
    output.table(columns, rows, total if len(parts) > 1 else None)
    output.line()


def _gone(part: dict[str, Any], replaced: dict[str, Any] | None) -> str:
    if "gone_ms" not in part:
        return "not yet" if replaced is not None else "not replaced"
    return f"by {output.when(part['gone_ms'])}"


def _name(key: str) -> str:
    return (key.partition("/_data/")[2] or key).removesuffix(".parquet") or "(of another name)"


def _what(entry: dict[str, Any]) -> str:
    count, kind = entry["count"], entry["kind"]
    if not count:
        return f"{kind}s"
    return f"{output.number(count)} {kind}{'s' if count != 1 and kind != 'log text' else ''}"


def _why(entry: dict[str, Any]) -> str:
    until = "" if entry["until_ms"] is None else f" (until {output.when(entry['until_ms'])})"
    return f"{entry['why']}{until}; {entry['next_step']}"
