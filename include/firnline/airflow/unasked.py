"""Stand-ins for the operators that ask a person, for Airflow 3.0, which has none.

The DAGs are the same there, so that plans and dry runs work; ``approvals.refuse_asking`` ends a run
that comes to its question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator


class HITLOperator(BaseOperator):
    """Takes the arguments of Airflow's, and asks nobody."""

    def __init__(
        self,
        *,
        subject: str,
        options: Sequence[str] = (),
        body: str | None = None,
        defaults: Sequence[str] | None = None,
        multiple: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.subject = subject
        self.options = list(options)
        self.body = body
        self.defaults = defaults
        self.multiple = multiple

    def execute_complete(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as Airflow's
        """Raise NotImplementedError: nobody was asked, so nobody answers."""
        raise NotImplementedError("this Airflow asks nobody")


class ApprovalOperator(HITLOperator):
    """Takes the arguments of Airflow's, and asks nobody."""

    APPROVE: ClassVar[str] = "Approve"
    REJECT: ClassVar[str] = "Reject"

    def __init__(self, **more: Any) -> None:
        super().__init__(options=[self.APPROVE, self.REJECT], **more)
