"""``python -m turnctl``: the command line."""

from __future__ import annotations

from turnctl.cli.main import main

if __name__ == "__main__":
    main()
