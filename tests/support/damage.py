"""Ways in which the files of a ledger come to harm: cut off, a bit turned, pages lost, logs and sidecars of others."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["KINDS", "harm"]


def _cut(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def _turn_bit(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


def _overwrite(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data) + 1)
    data[at : at + 512] = chance.randbytes(len(data[at : at + 512]))
    path.write_bytes(data)


def _lose_page(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    page = chance.randrange(max(1, len(data) // 4096)) * 4096
    data[page : page + 4096] = bytes(len(data[page : page + 4096]))
    path.write_bytes(data)


def _header(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(min(100, len(data)))] = chance.randrange(256)
    path.write_bytes(data)


def _foreign(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(chance.choice([0, 1, 99, 100, 4096, 20000])))


def _remove(path: Path, _: random.Random) -> None:
    path.unlink()


def _swap(path: Path, _: random.Random) -> None:
    """Main file and log have changed places."""
    log, away = Path(f"{path}-wal"), path.with_name("away")
    if log.exists():
        os.rename(log, away)
        os.rename(path, log)
        os.rename(away, path)


def _of_log(act: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], None]:
    def run(path: Path, chance: random.Random) -> None:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            act(log, chance)
        else:
            act(path, chance)

    return run


def _marks(path: Path, chance: random.Random) -> None:
    _turn_bit(Path(f"{path}.hwm"), chance)


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "cut": _cut,
    "bit": _turn_bit,
    "overwritten": _overwrite,
    "page lost": _lose_page,
    "header": _header,
    "foreign": _foreign,
    "removed": _remove,
    "swapped": _swap,
    "log cut": _of_log(_cut),
    "log bit": _of_log(_turn_bit),
    "log overwritten": _of_log(_overwrite),
    "log removed": _of_log(_remove),
    "log foreign": _of_log(_foreign),
    "marks": _marks,
}


def harm(kind: str, whole: Path, folder: Path, seed: int) -> Path:
    """A copy of the ledger in the folder ``whole``, harmed; its path."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    os.chmod(folder, 0o700)
    path = folder / "ledger.db"
    KINDS[kind](path, random.Random(f"{kind} {seed}"))
    for file in folder.iterdir():
        os.chmod(file, 0o600)
    return path
