"""docs/format.md: what every kind of object may hold of a row, as ``firnline.objects`` has them."""

from __future__ import annotations

from firnline.objects import KINDS
from tools.reference.markdown import code, table


def blocks() -> dict[str, str]:
    """Return the text of each block of the page."""
    rows = [
        (kind.name, code(kind.form), ", ".join(kind.holds) or "nothing", kind.until)
        for kind in KINDS
    ]
    return {"what objects hold": table(("kind", "key", "may hold", "goes when"), rows)}
