"""What a call of turnctl loads: modules are counted, since clocks tell nothing about a busy machine."""

from __future__ import annotations

import json
from pathlib import Path

from launch import call

__all__ = ["NEVER", "NOT_FOR_LOOKING", "loaded_by"]

NEVER = ["psutil", "structlog", "asyncio", "logging", "sqlite3", "rich", "importlib.metadata", "json", "traceback"]
#: and what is only needed where there is a file of settings: the pyproject.toml of the checkout is none
NOT_FOR_SETTINGS = ["tomllib", "turnctl.cli.settings.tables", "turnctl.cli.settings.reading"]
NOT_FOR_LOOKING = [one for one in NEVER if one not in ("sqlite3", "json")] + NOT_FOR_SETTINGS


def loaded_by(tmp_path: Path, *args: str, env: dict[str, str] | None = None) -> set[str]:
    """The modules that a call of turnctl loads, besides those of a bare interpreter; what stands in for one is none."""
    listing = tmp_path / "modules"
    before = (
        "import atexit, sys; bare = set(sys.modules)\n"
        "real = lambda m: getattr(getattr(m, '__spec__', None), 'loader', None)\n"
        "found = lambda: sorted(n for n, m in sys.modules.items() if n not in bare and real(m))\n"
        f"atexit.register(lambda: open({str(listing)!r}, 'w').write(repr(found())))"
    )
    ended = call(*args, before=before, env=env)

    assert 0 == ended.status, ended
    return set(json.loads(listing.read_text().replace("'", '"')))
