"""docs/help.md: the kinds of errors, as ``firnline.errors`` has them."""

from __future__ import annotations

from firnline import errors
from tools.reference.markdown import code, prose, table

_RETRYABLE = {True: "yes", False: ""}


def blocks() -> dict[str, str]:
    """Return the text of each block of the page."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.FirnlineError)
    ]
    rows = [
        (
            code(kind.__name__),
            str(kind.exit_code),
            _RETRYABLE[kind.retryable],
            prose((kind.__doc__ or "").partition("\n")[0].replace("``", "`")),
        )
        for kind in kinds
        if kind is not errors.FirnlineError
    ]
    return {
        "errors": table(("kind", "exit code", "the same call may succeed later", "means"), rows)
    }
