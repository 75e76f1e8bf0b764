"""A step of building the wheel: writes the man page of every command, from the command itself, into share/man/man1.

The day in them is that of SOURCE_DATE_EPOCH, else that of the build.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Adds them to what is installed beside the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # `bin/pages --man FOLDER` writes those of a checkout
        sys.path.insert(0, self.root)
        from turnctl.cli.pages.__main__ import man

        self._folder = tempfile.TemporaryDirectory(prefix="turnctl-man-")
        moment = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or datetime.now(UTC).timestamp()
        day = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
        for path in man(Path(self._folder.name), day):
            build_data["shared_data"][str(path)] = f"share/man/man1/{path.name}"

    def finalize(self, version: str, *_: object) -> None:
        if version != "editable":
            self._folder.cleanup()
