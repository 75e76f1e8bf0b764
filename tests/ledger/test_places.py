"""Where a ledger is put: a folder that cannot be made is told in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from turnctl.errors import StoreMissing
from turnctl.ledger import places


def test_folder_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system's reason, and without its number and the name once more."""

    def refuse(folder: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), folder)

    monkeypatch.setattr(places, "own_folder", refuse)
    with pytest.raises(StoreMissing) as found:
        places.made_folder(str(tmp_path / "state" / "ledger.sqlite3"))

    wanted = f"the folder {tmp_path / 'state'} cannot be made (Read-only file system); make it, mode 0700"
    assert wanted == str(found.value)
