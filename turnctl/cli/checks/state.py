"""The state directory: whose it is, who can get in, whether the ledger in it can be trusted, and how large it is."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from turnctl.cli.checks.check import Finding, Look
from turnctl.cli.problems import of_store
from turnctl.cli.settings.places import user_file
from turnctl.errors import StoreError, StoreMissing
from turnctl.ledger.places import FILES, check_file_system, file_system_of
from turnctl.ledger.whereabouts import default_path
from turnctl.spelling import in_words

__all__ = ["looks", "mend"]

#: from here on it is worth to prune
_LARGE = 512 * 1024 * 1024


def looks(state_dir: str | None) -> Iterator[tuple[str, Look]]:
    """What there is to look at."""
    try:
        path = default_path(state_dir)
    except StoreError as error:
        told = of_store(error)
        yield "state.directory", partial(Finding, "fail", told.message, told.hint)
        return
    yield "state.directory", partial(_directory, path.parent)
    yield "state.mode", partial(_modes, path)
    yield "state.filesystem", partial(_file_system, path)
    yield "state.sqlite", _sqlite
    yield "state.ledger", partial(_ledger, path)
    yield "state.size", partial(_size, path)


def _directory(folder: Path) -> Finding:
    details = {"path": str(folder)}
    try:
        found = folder.stat()
    except FileNotFoundError:
        above = next((one for one in folder.parents if one.exists()), Path("/"))
        if not os.access(above, os.W_OK | os.X_OK):
            remedy = f"let this user write {above}, or name another one with TURNCTL_STATE_DIR"
            return Finding("fail", f"{folder} is not there, and this user may not make it", remedy, details)
        return Finding("ok", f"{folder} is not there yet; the first turn that is recorded makes it", details=details)
    except OSError as error:
        text = f"{folder} cannot be looked at: {in_words(error, of=str(folder))}"
        return Finding("fail", text, "name another one with TURNCTL_STATE_DIR", details)
    if not stat.S_ISDIR(found.st_mode):
        return Finding("fail", f"{folder} is no directory", "name another one with TURNCTL_STATE_DIR", details)
    if found.st_uid != os.geteuid():
        remedy = "run turnctl as its owner, or name a directory of your own with TURNCTL_STATE_DIR"
        return Finding("fail", f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}", remedy, details)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        text = f"{folder} is on a file system that can only be read"
        return Finding("fail", text, "name another one with TURNCTL_STATE_DIR", details)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("fail", f"{folder} cannot be written", f"chmod u+rwx {shlex.quote(str(folder))}", details)
    return Finding("ok", f"{folder}", details=details)


def _open_to_others(path: Path) -> list[tuple[Path, int]]:
    """What others can reach, with the mode that it should have."""
    wanted = [(path.parent, 0o700), *((Path(f"{path}{ending}"), 0o600) for ending in FILES)]
    found = []
    for one, mode in wanted:
        try:
            now = one.lstat()
        except OSError:
            continue
        if stat.S_IMODE(now.st_mode) & 0o077 and not stat.S_ISLNK(now.st_mode):
            found.append((one, mode))
    return found


def _is_for_turnctl(path: Path) -> bool:
    """Whether its folder can be closed to others: it is not everybody's, and has a ledger in it or nothing."""
    try:
        is_shared = bool(path.parent.stat().st_mode & stat.S_ISVTX)
        return not is_shared and (path.exists() or not os.listdir(path.parent))
    except OSError:
        return False


def _modes(path: Path) -> Finding:
    found = _open_to_others(path)
    if not found:
        return Finding("ok", "nobody else can get in")
    names = ", ".join(f"{one} ({stat.S_IMODE(one.stat().st_mode):04o})" for one, _ in found)
    if not _is_for_turnctl(path) and (path.parent, 0o700) in found:
        remedy = "it has other things in it: name a directory of its own with TURNCTL_STATE_DIR"
    else:
        remedy = "; ".join(f"chmod {mode:o} {shlex.quote(str(one))}" for one, mode in found)
    return Finding("fail", f"others can reach {names}", remedy, {"paths": [str(one) for one, _ in found]})


def mend(state_dir: str | None) -> list[str]:
    """Take from others what they can reach; what was done."""
    done = []
    path = default_path(state_dir)
    for one, mode in _open_to_others(path):
        if one == path.parent and not _is_for_turnctl(path):
            continue
        one.chmod(mode)
        done.append(f"chmod {mode:o} {one}")
    return done


def _file_system(path: Path) -> Finding:
    folder = os.path.realpath(next((one for one in path.parents if one.exists()), Path("/")))
    kind = file_system_of(folder)
    details = {"type": kind}
    try:
        check_file_system(os.path.join(folder, path.name))
    except StoreError as error:
        remedy = "name a directory on a local disk with TURNCTL_STATE_DIR"
        return Finding("fail", str(error).partition("; ")[0], remedy, details)
    return Finding("ok", f"a file system that keeps locks and flushes ({kind or 'unknown'})", details=details)


def _sqlite() -> Finding:
    details = {"version": sqlite3.sqlite_version}
    if sqlite3.sqlite_version_info < (3, 24, 0):
        text = f"SQLite {sqlite3.sqlite_version} is too old: 3.24 is the oldest"
        return Finding("fail", text, "a newer Python", details)
    return Finding("ok", f"SQLite {sqlite3.sqlite_version}", details=details)


def _ledger(path: Path) -> Finding:
    details = {"path": str(path)}
    from turnctl.ledger.opening import open_sqlite

    try:
        open_sqlite(path).close()
    except StoreMissing:
        return Finding("skip", "there is no ledger yet", details=details)
    except StoreError as error:
        told = of_store(error)
        return Finding("fail", told.message, told.hint, details | {"error": type(error).__name__})
    return Finding("ok", f"{path} can be opened, and is not behind its mark", details=details)


def _size(path: Path) -> Finding:
    from turnctl.ledger.glance import Glances
    from turnctl.processes.sizes import format_size

    if not path.exists():
        return Finding("skip", "there is no ledger yet")
    size = sum(one.stat().st_size for one in path.parent.rglob("*") if one.is_file())
    try:
        with Glances(path) as there:
            ((ended, all_),) = there.ask("SELECT count(ended_at), count(*) FROM turn")
    except StoreError as error:
        return Finding("skip", f"the ledger cannot be read: {of_store(error).message}", details={"bytes": size})
    details = {"bytes": size, "turns": all_, "ended": ended}
    summary = f"{format_size(size)} for {all_:,} turns, of which {ended:,} have ended"
    if size > _LARGE:
        where = user_file() or "your settings"
        remedy = f'turnctl ledger prune --older-than 30d  # which keep = "30d" in {where} makes its default'
        return Finding("warn", summary, remedy, details)
    return Finding("ok", summary, details=details)
