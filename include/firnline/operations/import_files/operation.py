"""An import, as every door takes it."""

from __future__ import annotations

from firnline.operations.import_files.folders import import_folders, preview
from firnline.operations.operation import Operation

OPERATION = Operation(preview, import_folders)
