"""Whether a place can keep a ledger: what file system it is on, and who besides its owner can reach it."""

from __future__ import annotations

import os
import re
import shlex
import stat

from turnctl.errors import StoreMissing, StoreUnsafe
from turnctl.ledger.ownfiles import own_folder
from turnctl.spelling import in_words

__all__ = [
    "FILES",
    "check_file_system",
    "check_folder",
    "check_owner",
    "file_system_of",
    "is_remote",
    "is_stacked",
    "is_unwritable",
    "made_folder",
]

#: what lies beside a store: its log and index (SQLite's), how far it has come, the doorbell, the turnstile, its users
FILES = ("", "-wal", "-shm", ".hwm", ".bell", ".room", ".lane", ".desk", ".users")

#: file systems whose locks, shared memory or flushes do not hold between machines, or at all
_REMOTE = {
    *(
        "nfs",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "coda",
        "glusterfs",
        "lustre",
        "gpfs",
    ),
    *("beegfs", "orangefs", "ocfs2", "gfs2", "ncpfs", "davfs", "webdav", "afpfs", "virtiofs", "vboxsf", "prl_fs"),
    *("fuse", "osxfuse", "macfuse"),
}

#: file systems that show the files of another one, which may be written to there
_STACKED = {"overlay", "aufs", "unionfs", "ecryptfs", "shiftfs"}


def file_system_of(folder: str, mounts: str | None = None) -> str | None:
    """The type of the file system of ``folder``, None where the system does not tell.

    ``mounts`` is the text of /proc/self/mountinfo, for tests.
    """
    found = _mount_of(folder, mounts)
    return None if found is None else found[0]


def is_unwritable(path: str, mounts: str | None = None) -> bool:
    """Whether its file system is mounted so that nobody here can write to it, by whatever path.

    A mount that only shows a file system read-only, which is writable elsewhere, is not such a one.
    """
    found = _mount_of(path, mounts)
    return found is not None and "ro" in found[-1].split(",") and found[0] not in _STACKED


def is_stacked(path: str) -> bool:
    """Whether its file system shows the files of another one, whose locks are not seen by it."""
    return file_system_of(path) in _STACKED


def _mount_of(path: str, mounts: str | None) -> list[str] | None:
    """The type, the source and the options of the file system that ``path`` is on."""
    if mounts is None:
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
                mounts = file.read()
        except OSError:
            return None
    found, longest = None, -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        covers = point == "/" or path == point or path.startswith(f"{point}/")
        if covers and len(point) >= longest:  # of two on one point the later covers the earlier
            found, longest = after.split(" "), len(point)
    return found


def check_file_system(path: str, mounts: str | None = None) -> None:
    """Refuse what cannot keep a store."""
    kind = file_system_of(os.path.dirname(path), mounts)
    if kind is not None and _is_remote(kind):
        text = (
            f"{path} is on a file system of type {kind}, whose locks and flushes a ledger cannot rely on; put it on a "
            "local disk, or use a server for a ledger that several machines share"
        )
        raise StoreUnsafe(text, path=path)


def is_remote(folder: str) -> bool:
    """Whether locks in it may not hold between machines; False where the system does not tell."""
    kind = file_system_of(folder)
    return kind is not None and _is_remote(kind)


def _is_remote(kind: str) -> bool:
    return kind in _REMOTE or kind.startswith("fuse.")


def check_folder(path: str) -> None:
    """Refuse a store whose folder is something else, or cannot be entered: nobody can say there that it is missing.

    A folder that is not there is none of that.
    """
    folder = os.path.dirname(path)
    another = "name another place for the ledger: TURNCTL_STATE_DIR"
    try:
        found = os.stat(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnsafe(
            f"the folder {folder} cannot be looked at ({in_words(error, of=folder)}); {another}", path=path
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise StoreUnsafe(f"{folder} is no folder; {another}", path=path)
    if not os.access(folder, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        if found.st_uid != os.geteuid():
            _check(folder, found, "folder", 0o700)
        raise StoreUnsafe(f"the folder {folder} cannot be entered; chmod 0700 {shlex.quote(folder)}", path=path)


def check_owner(path: str, *, reads: bool = False) -> None:
    """Refuse a store that is another user's, or that others can reach: its folder, it, and what lies beside it.

    With ``reads``, for a copy that is only to be read, others may look into the folder, but not write there.
    """
    folder = os.path.dirname(path)
    found = os.stat(folder)
    if not reads or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        _check(folder, found, "folder", 0o700)
    for ending in FILES:
        try:
            found = os.lstat(path + ending)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise StoreUnsafe(f"{path}{ending} is no regular file; a ledger is kept in regular files alone", path=path)
        _check(path + ending, found, "file", 0o600)
        if found.st_nlink != 1:
            text = (
                f"{path}{ending} has {found.st_nlink} names, and SQLite a log for each: remove all hard links but one"
            )
            raise StoreUnsafe(text, path=path)


def _check(name: str, found: os.stat_result, what: str, mode: int) -> None:
    if found.st_uid != os.geteuid():
        text = (
            f"{what} {name} belongs to user {found.st_uid}, and this process acts as {os.geteuid()}; run it as the "
            "owner, or keep a ledger of your own"
        )
        raise StoreUnsafe(text, path=name)
    if found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode):
        raise StoreUnsafe(f"folder {name} is everybody's; put the ledger into a folder of your own", path=name)
    if stat.S_IMODE(found.st_mode) & 0o077:
        text = (
            f"{what} {name} can be reached by others (mode {stat.S_IMODE(found.st_mode):04o}), and a ledger holds "
            "payloads and receipts"
        )
        way = "; keep it in a folder of its own, and if this is one: " if what == "folder" else ": "
        text += f"{way}chmod {mode:04o} {shlex.quote(name)}"
        raise StoreUnsafe(text, path=name)


def made_folder(path: str) -> None:
    """Make the folder for a store, for its owner alone; one that is there is left as it is."""
    folder = os.path.dirname(path)
    check_folder(path)
    try:
        own_folder(folder)
    except OSError as error:
        text = f"the folder {folder} cannot be made ({in_words(error, of=folder)}); make it, mode 0700"
        raise StoreMissing(text, path=path) from error
