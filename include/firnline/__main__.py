"""``python -m firnline``: the command line, where the script ``firnline`` is not on the path."""

from __future__ import annotations

from firnline.cli.app import main

if __name__ == "__main__":
    main()
