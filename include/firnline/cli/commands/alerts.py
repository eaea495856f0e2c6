"""``firnline alerts test``: whether the notifier of a table reaches anybody."""

from __future__ import annotations

from typing import Any

import typer

from firnline.cli import output
from firnline.cli.failures import done
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, settings_of
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.extras import require

commands = typer.Typer()
group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="alerts", help="Try the notifier of a table.")


@command(group, "test", ["firnline alerts test flights"])
def try_notifier(
    table: TableArgument, as_json: JsonOption = False, settings: SettingsOption = None
) -> None:
    """Call the notifier of a table as a failed run does, with the reason `test`.

    It runs where it is called: install what the notifier needs, and run it with the environment of
    Airflow, whose connections it may ask for. Sends no request to the table's store.
    """
    own = settings_of(table, settings)
    notifier = own.alerts.notifier
    if not notifier:
        raise UsageError(
            f"table {own.name} has no notifier",
            next_step="set alerts.notifier in its settings, or in defaults",
        )
    require("airflow")
    from firnline.airflow.alerts import try_alert

    try:
        told = try_alert(own)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise EnvironmentFaultError(
            f"the notifier {notifier} of table {own.name} failed: {why}",
            next_step="correct alerts.notifier and its arguments, or install what it needs",
        ) from error
    done(f"the notifier of {own.name} was called")
    data = {"table": own.name, "notifier": notifier, "told": told}
    output.show(data, as_json, _render)


def _render(data: dict[str, Any]) -> None:
    output.pairs(
        [("notifier", data["notifier"]), *((n, str(v) or "-") for n, v in data["told"].items())]
    )
    output.line()
    output.line("It was called, and raised nothing: look where it was to arrive.")
