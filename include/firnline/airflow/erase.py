"""Erase of keys after approval, as the work of a DAG. ``graphs.erase`` creates the DAGs.

Keys never appear in a log, a plan, a question or an argument list. Keys given as a param are stored
in Airflow's database, as the docs say; those of ``keys_file`` are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.approvals import (
    ANSWER_WITHIN,
    Approve,
    answer_within,
    answer_within_param,
    approved_by,
    code,
    refuse_approver,
)
from firnline.airflow.erasure import ASKED_IN, approval_of
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import parts_text, time_text
from firnline.airflow.params import asked_param, form_params, form_values
from firnline.airflow.runs import run_identity
from firnline.airflow.tasks import ReportRun
from firnline.airflow.work import SparkWork
from firnline.errors import UsageError
from firnline.operations.asked import AskedKeys, asked_of
from firnline.operations.dag_ids import ERASE_PERSON
from firnline.operations.hidden import shown_partition
from firnline.operations.options import EraseOptions
from firnline.operations.registry import CLEANUP, ERASE
from firnline.settings.dags import has_dag
from firnline.settings.load import TableSettings
from firnline.units import about_size, counted, format_duration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity
    from firnline.operations.delete.plan import ErasePlan
    from firnline.operations.erase.certificate import Certificate
    from firnline.table import Table

_SCALARS = ["string", "integer", "number", "boolean"]
_LOOKED_AT = 50
"""Number of newest certificates that are searched for those of a run."""


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """The options of an erase and the name of the approver."""

    options: EraseOptions
    by: str = ""

    @property
    def dry_run(self) -> bool:
        """Return True if the run ends after the plan."""
        return self.options.dry_run


class EraseWork(SparkWork["EraseRequest"]):
    """Removes the rows of a set of keys from every part, with a certificate."""

    about = ERASE

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params: the keys, and the time to wait for an answer."""
        return {
            **form_params(EraseOptions, known),
            "keys": asked_param(
                None,
                "Keys",
                "Instead of a file: `[17, 18]`, with several columns "
                '`[["a", 17], ["b", 18]]`. **They stay in Airflow\'s database and are shown with '
                "the run**; a file's do not.",
                type=["array", "null"],
                items={"type": [*_SCALARS, "array"]},
                form='a list of keys such as [17, 18] or [["a", 17], ["b", 18]]',
            ),
            "requests": asked_param(
                None, "Requests", f"Left to `{ERASE_PERSON}`.", type=["array", "null"]
            ),
            ASKED_IN: asked_param(
                None, "Asked in", f"Left to `{ERASE_PERSON}`.", type=["string", "null"]
            ),
            ANSWER_WITHIN: answer_within_param(),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> EraseRequest:
        """Return the request; keys are checked later. Raises UsageError for ``answer_within``."""
        answer_within(params)  # checked before the approval task starts
        keys = params.get("keys") or ()
        options = EraseOptions(
            **form_values(EraseOptions, params),
            keys=tuple(keys),
            requests=_requests(params),
            dry_run=dry_run,
        )
        return EraseRequest(options)

    def preview(self, table: Table, options: EraseRequest) -> ErasePlan:
        """Return the plan: the parts that may hold the keys."""
        return self.about.load().plan(table, options.options)

    def job_options(self, options: EraseRequest) -> str:
        """Return the options as JSON for the job's environment."""
        import msgspec

        return msgspec.json.encode(options.options).decode()

    def approved_by(self, options: EraseRequest) -> str:
        """Return the approver's name, which goes into the history and the certificate."""
        return options.by or ""

    def confidential(self, options: EraseRequest) -> str | None:
        """Return the alternative to keys in an argument list; None for a file of keys."""
        if options.options.keys_file is not None or options.options.requests:
            return None
        return "put the keys into a file in the table's bucket and give keys_file"

    def report_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return what was erased, and the certificate with what completes it."""
        said = super().report_sentence(figures)
        if not figures["certificates"]:
            return said
        ids = ", ".join(figures["certificates"])
        later = f"{figures['completed_by']} after {time_text(figures['completed_after_ms'])} UTC"
        return f"{said}; certificate {ids}: {later} completes it"

    def question(
        self, table: TableSettings, figures: Mapping[str, Any], now_ms: int
    ) -> tuple[str, str]:
        """Return a question with the number of keys and the parts to read; never a key."""
        keys, columns = counted(figures["keys"], "key"), ", ".join(map(code, figures["columns"]))
        grace = table.cleanup.grace
        size, groups = about_size(figures["bytes_in"]), figures["groups"]
        read = f"{parts_text(figures['parts_to_read'])} ({size}) to read"
        deleted = (
            f"The objects that hold them are deleted {format_duration(grace)} after the erase: "
            f"approved now, not before {time_text(now_ms + grace)} UTC."
        )
        text = [
            f"All rows of **{keys}** of {columns} go for good.",
            f"{read}; those that hold a key are rewritten. **No restore brings the rows back.**",
            deleted,
            "",
            "| partition | parts to read | size |",
            "|---|--:|--:|",
        ]
        text += [
            f"| {code(group['partition'] or '(none)')} | {group['parts']:,} | "
            f"{about_size(group['bytes'])} |"
            for group in groups
        ]
        more = figures.get("groups_in_all", 0) - len(groups)
        return f"Erase {keys} from table {table.name}?", "\n".join(
            [*text, *(["", f"and {counted(more, 'group')} more."] if more > 0 else [])]
        )


class ApproveErase(Approve):
    """Asks, unless the run of ``erase_person`` that has started this one was approved."""

    def answered(self, context: Context) -> dict[str, Any] | None:
        """Return the approval of that run; None without one. Raises as ``approval_of``."""
        params = context["params"]
        if not params.get(ASKED_IN):
            return None
        with airflow_failures():
            wanted = {
                "table": self.table.of_run(context).name,
                "columns": list(params.get("columns") or ()),
                "requests": list(params.get("requests") or ()),
            }
            by = approval_of(context, wanted)
        return {"approved": True, "by": by, "timed_out": False}


class ApprovedErase(EraseWork):
    """The erase after a person has approved it."""

    def parse_params(self, context: Context) -> EraseRequest:
        """Return the request with its approver. Raises UsageError if nobody approved it."""
        return EraseRequest(super().parse_params(context).options, approved_by(context))

    def permit(self, context: Context, settings: TableSettings) -> None:
        """Raise UsageError if the approver is not permitted to approve."""
        refuse_approver(self, settings, context, approved_by(context))


class ReportErase(ReportRun):
    """Reports the commits of the run, with the ids of its certificates.

    XCom and asset event: as of ReportRun, and ``certificates``, with the time before which none is
    complete and what completes them then. A partition may have the name of a key: ``partitions``
    have no values of the columns of the keys.
    """

    def figures(self, context: Context, table: Table) -> dict[str, Any]:
        """Return the figures to report."""
        from firnline.operations.erase.pending import longest_wait

        found = certificates_of(table, run_identity(context))
        figures = super().figures(context, table)
        columns = context["params"].get("columns") or ()
        named = [shown_partition(name, columns) for name in figures["partitions"]]
        committed = [one.replaced.t for one in found if one.replaced is not None]
        return {
            **figures,
            "partitions": named,
            "certificates": [one.id for one in found],
            "completed_after_ms": max(committed) + longest_wait(table) if committed else None,
            "completed_by": who_completes(table.settings, [one.id for one in found]),
        }


def _requests(params: Mapping[str, Any]) -> tuple[AskedKeys, ...]:
    """Return the requests that a run is given. Raises UsageError: they are none."""
    found = asked_of(params.get("requests") or ())
    if found and not params.get(ASKED_IN):
        raise UsageError(
            f"requests are approved in {ERASE_PERSON}, and this run names none of its runs",
            next_step=f"trigger {ERASE_PERSON}, or give keys_file",
        )
    return found


def who_completes(table: TableSettings, certificates: Sequence[str]) -> str:
    """Return what completes certificates of a table, after their time."""
    if has_dag(table, CLEANUP.dag):
        return f"a run of {CLEANUP.dag}"
    return ", ".join(f"`firnline certificate {table.name} {each}`" for each in certificates)


def certificates_of(table: Table, run: RunIdentity) -> list[Certificate]:
    """Return the certificates that a run wrote. One LIST and at most 50 GET."""
    from firnline.operations.erase.certificate import list_certificates, read

    found = []
    for listed in list_certificates(table)[-_LOOKED_AT:]:
        certificate = read(table, table.paths.certificate(listed.id))
        if certificate is not None and certificate.run.is_run_of(run):
            found.append(certificate)
    return found
