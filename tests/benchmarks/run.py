"""Run the benchmarks and print their tables: ``bin/bench [tokens] [processes] ...``."""

from __future__ import annotations

import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from table import head, show

ALL = (
    "tokens",
    "waiting",
    "processes",
    "output",
    "runs",
    "stop",
    "http",
    "streams",
    "requests",
    "mcp",
    "ledger",
    "store",
    "growth",
    "agent",
    "starts",
)


def main() -> int:
    wanted = sys.argv[1:] or list(ALL)
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(ALL)}", file=sys.stderr)
        return 2
    print(head())
    for name in wanted:
        module = importlib.import_module(f"bench_{name}")
        show(module.TITLE, module.rows())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
