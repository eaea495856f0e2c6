"""What a commit costs besides its two PUT: LIST that show whether it has happened."""

from __future__ import annotations

CHECK = 1
"""Of ``_txn/``, after the transaction before it."""
FIRST_CHECK = 2
"""Of ``_log/`` too, where there is no transaction before it."""
