"""The folder that is imported, and what its paths say of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firnline.operations.import_files.path_columns import path_values
from firnline.parquet.footers import FooterFacts
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.types.sql import fold_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The imported folder and the table that it goes into."""

    settings: TableSettings
    paths: TablePaths
    source: str
    """Key prefix of the folder, ending in ``/``."""
    split: bool = False
    """Read and write the rows of a file of which the footer does not prove that they lie in one
    partition; False: such a file is refused."""
    skip_bad: bool = False
    """Leave files out that cannot be taken; False: one of them refuses all."""
    path_columns: bool = True
    """Columns that only the folders state are columns of the rows."""
    path_types: Mapping[str, str] = field(default_factory=dict)
    """Types of such columns that somebody has stated."""
    again_and_again: bool = False
    """Only new files are taken: none of them need state a column whose type is stated."""

    def in_place(self, key: str) -> bool:
        """Return True for a file under the table's ``_data/``."""
        return key.startswith(self.paths.data_dir)

    def states(self, facts: FooterFacts) -> dict[str, str | None]:
        """Return what the folders of a file state of columns that it does not have itself."""
        if not self.path_columns or self.in_place(facts.key):
            return {}
        own = {fold_name(name) for name in facts.columns}
        found = path_values(self.source, facts.key)
        return {name: text for name, text in found.items() if fold_name(name) not in own}
