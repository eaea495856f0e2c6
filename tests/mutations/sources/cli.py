"""Mistakes in the command line."""

from __future__ import annotations

from tests.mutations.model import Mutation

CLI = (
    Mutation(
        name="a command that removes rows does not ask",
        file="include/firnline/cli/confirm.py",
        old="    if yes and not dry_run:\n",
        new="    if not dry_run:\n",
        breaks="A mistyped condition or key takes rows at once.",
        caught_by=("tests/cli/test_delete.py",),
        unit=False,
    ),
    Mutation(
        name="an erase takes its question for answered",
        file="include/firnline/cli/commands/erase.py",
        old="            yes=yes,\n",
        new="            yes=True,\n",
        breaks="The rows of a mistyped key are gone for ever.",
        caught_by=("tests/cli/test_delete.py",),
        unit=False,
    ),
    Mutation(
        name="any answer is a yes",
        file="include/firnline/cli/confirm.py",
        old='        return sys.stdin.readline().strip().lower() == "yes"',
        new='        return sys.stdin.readline().strip().lower() != "no"',
        breaks="Enter, or a closed terminal, drops partitions.",
        caught_by=("tests/cli/test_drop.py",),
        unit=False,
    ),
    Mutation(
        name="what a person agreed to does not bind the run",
        file="include/firnline/cli/operate.py",
        old="operation.confirmed(options, plan) if operation.confirmed else options",
        new="options",
        breaks="Rows that nobody was shown are dropped, or transactions undone.",
        caught_by=("tests/cli/test_drop.py",),
        unit=False,
    ),
    Mutation(
        name="a door that asks nobody may drop rows",
        file="include/firnline/operations/operation.py",
        old="            if work.consent is None:\n",
        new="            if work.consent is None and self.plan_page is None:\n",
        breaks="A new door, or one that is changed, deletes rows without a question.",
        caught_by=("tests/unit/operations/test_operation.py",),
    ),
    Mutation(
        name="what changed after the question is dropped, too",
        file="include/firnline/operations/drop/operation.py",
        old="msgspec.structs.replace(options, expected=plan.versions)",
        new="msgspec.structs.replace(options, expected={})",
        breaks="Rows that nobody was shown are dropped.",
        caught_by=("tests/cli/test_drop.py",),
        unit=False,
    ),
    Mutation(
        name="a dry run with --yes drops",
        file="include/firnline/cli/commands/drop.py",
        old="dry_run=dry_run\n",
        new="dry_run=dry_run and not yes\n",
        breaks="Whoever wants to look drops partitions.",
        caught_by=("tests/unit/cli/test_dry_runs.py",),
    ),
    Mutation(
        name="a sweep of one key deletes all that is listed",
        file="include/firnline/cli/commands/sweep.py",
        old="replace(options, dry_run=not delete)",
        new="replace(options, dry_run=not delete, approved=None)",
        breaks="Objects go that nobody has named.",
        caught_by=("tests/cli/test_sweep.py",),
        unit=False,
    ),
    Mutation(
        name="findings of a check end with 0",
        file="include/firnline/cli/commands/verify.py",
        old="""        if as_json:
            raise
        # The table above""",
        new="""        if not as_json:
            return
        # The table above""",
        breaks="A nightly check of a broken table is green.",
        caught_by=("tests/cli/test_verify_rebuild_import.py",),
        unit=False,
    ),
    Mutation(
        name="a clean-up that failed ends with 0",
        file="include/firnline/cli/operate.py",
        old="""            output.show(partly.to_json(), as_json, page)
        if as_json or""",
        new="""            output.show(partly.to_json(), as_json, page)
        return
        if as_json or""",
        breaks="Objects that cannot be deleted stay, and nobody is told.",
        caught_by=("tests/cli/test_cleanup.py",),
        unit=False,
    ),
    Mutation(
        name="a failure ends with 0",
        file="include/firnline/cli/failures.py",
        old="    return error.exit_code if isinstance(error, FirnlineError) else UNEXPECTED",
        new="    return error.exit_code if isinstance(error, FirnlineError) else 0",
        breaks="A script goes on after a bug of ours.",
        caught_by=("tests/unit/cli/test_failures.py",),
    ),
    Mutation(
        name="a change is forgotten when its output is lost",
        file="include/firnline/store/base.py",
        old='        Changes.sent += other.get("put", 0) + other.get("delete", 0)\n',
        new="",
        breaks="Who could not read that rows were appended is told to append them again.",
        caught_by=("tests/unit/cli/test_failures.py",),
    ),
    Mutation(
        name="names of the table reach the terminal as they are",
        file="include/firnline/cli/failures.py",
        old="        c if c.isprintable() else",
        new="        c if c != '\\0' else",
        breaks="A partition's name drives the terminal of whoever looks at it.",
        caught_by=("tests/unit/cli/test_failures.py", "tests/cli/test_output.py"),
    ),
    Mutation(
        name="errors reach the terminal as they are",
        file="include/firnline/cli/failures.py",
        old="    return printable(str(error))",
        new="    return str(error)",
        breaks="A key that an error names drives the terminal of whoever reads it.",
        caught_by=("tests/unit/cli/test_failures.py",),
    ),
    Mutation(
        name="rows of another partition are taken",
        file="include/firnline/appends/append.py",
        old="            if agree and where:\n",
        new="            if agree and not where:\n",
        breaks="Rows of one customer lie in the partition of another, and go when that is dropped.",
        caught_by=("tests/cli/test_append.py",),
    ),
    Mutation(
        name="a file is appended twice",
        file="include/firnline/rows/source.py",
        old="    _refuse_twice(paths)\n",
        new="",
        breaks="The rows of a file that two globs match are there twice.",
        caught_by=("tests/cli/test_append.py",),
    ),
)
