"""An auth manager by which a user may only see the DAGs of tables that have the user's name."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class OwnTables(SimpleAuthManager):
    """Users see the DAGs ``…__NAME`` and no others; ``root`` sees all."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **given: Any) -> bool:
        """Return True for the user's own DAGs."""
        allowed = super().is_authorized_dag(user=user, details=details, **given)
        name = user.get_name()
        own = details is None or details.id is None or str(details.id).endswith(f"__{name}")
        return allowed and (own or name == "root")
