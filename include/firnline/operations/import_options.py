"""The options of an import: of one folder, and of all folders that a run takes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.common_options import DryRun
from firnline.operations.fields import Option

Exclude = Annotated[
    tuple[str, ...],
    Option(
        "Exclude",
        "Leave files out whose path below the folder matches, such as `*/tmp/*`.",
        absent="none",
        in_form="Empty: `import.exclude` of the table's settings.",
        metavar="GLOB",
    ),
]
PathTypes = Annotated[
    tuple[str, ...],
    Option(
        "Types of path columns",
        "Type of a column that only the folders state, such as `day=DATE`.",
        absent="as Spark infers them: INTEGER, BIGINT, DOUBLE, DATE, TIMESTAMP or VARCHAR",
        in_form="Empty: `import.path_types` of the table's settings.",
        metavar="NAME=TYPE",
    ),
]
NoPathColumns = Annotated[
    bool,
    Option(
        "No path columns",
        "Leave out the columns that only the folders state, as `day` in `day=2024-01-01/`: "
        "files are then copied as they are.",
    ),
]
SkipBad = Annotated[
    bool,
    Option(
        "Skip bad files",
        "Take the other files if some cannot be taken; the report names those with the reason.",
    ),
]
Split = Annotated[
    bool,
    Option(
        "Split",
        "Read and write the rows of files that span partitions, or whose footer does not "
        "say in which one they lie; without it such a file is refused.",
    ),
]
Writer = Annotated[
    str,
    Option(
        "Writer",
        "Who writes: at most 128 of a-z, A-Z, digits, `.` and `-`; `firnline parts` and "
        "`firnline history` show it.",
        metavar="NAME",
    ),
]


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an import."""

    source: Annotated[
        str,
        Option(
            "Source",
            "URL of the folder, in the table's bucket (`file://`: below the parent folder).",
            metavar="SOURCE",
            argument=True,
        ),
    ]
    new: Annotated[
        bool,
        Option(
            "New files only",
            "Take the files that no import has taken so far, below any folder. With it an import "
            "may be run again and again; without it a folder is imported once.",
        ),
    ] = False
    exclude: Exclude = ()
    path_types: PathTypes = ()
    no_path_columns: NoPathColumns = False
    skip_bad: SkipBad = False
    strict: Annotated[
        bool,
        Option(
            "Strict",
            "Refuse a folder of which an object would be left out: what is no Parquet file, is "
            "hidden for Spark, or is excluded.",
        ),
    ] = False
    again: Annotated[
        bool,
        Option(
            "Again",
            "Also import a folder that was imported before: its rows are then in the table twice.",
        ),
    ] = False
    split: Split = False
    writer: Writer = "import"
    dry_run: DryRun = False


class ImportFoldersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the import of several folders as one run, by default those of the settings.

    What the settings say of a table's imports holds besides.
    """

    source: Annotated[
        tuple[str, ...],
        Option(
            "Source",
            "URLs of folders in the table's bucket.",
            absent="`import.source` of the table's settings",
            metavar="URL",
        ),
    ] = ()
    new: Annotated[
        bool,
        Option(
            "New files only",
            "Take the files that no import has taken so far. Without it each folder is imported "
            "once.",
        ),
    ] = True
    exclude: Exclude = ()
    path_types: PathTypes = ()
    no_path_columns: NoPathColumns = False
    skip_bad: SkipBad = False
    split: Split = False
    dry_run: DryRun = False
