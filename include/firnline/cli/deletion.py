"""Output of commands that delete objects: counts, and the objects that failed."""

from __future__ import annotations

from firnline.cli import output


def show_failures(failures: list[dict[str, str]], count: int) -> None:
    """Print a row for each of the first objects that could not be deleted."""
    if not failures:
        return
    columns = [output.Column("not deleted", wrap=True), output.Column("because", wrap=True)]
    output.table(columns, ([f["key"], f["message"]] for f in failures))
    if count > len(failures):
        output.line(f"and {output.number(count - len(failures))} more")
    output.line()
