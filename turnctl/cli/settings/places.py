"""Which files of settings there are, and whether they may be believed; looks at names and modes, and reads little."""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import Literal, NamedTuple

from turnctl.cli.settings.problem import SettingsProblem
from turnctl.homes import home
from turnctl.spelling import in_words

__all__ = ["LEAVE_OUT", "PROJECT", "PYPROJECT", "Found", "Kind", "look", "user_file"]

#: ``named`` is one that --config or TURNCTL_CONFIG names
Kind = Literal["project", "user", "named"]

PYPROJECT = "pyproject.toml"
PROJECT = "turnctl.toml"
_LARGEST = 1024 * 1024
#: what has to stand in a pyproject.toml that is for us; most are not, and need not be understood
_OURS = (
    rb"""^[ \t]*(?:\[[ \t]*)?tool[ \t]*\.[ \t]*["']?turnctl["']?[ \t]*[\].=]"""
    rb"""|^[ \t]*\[[ \t]*tool[ \t]*\](?=.*turnctl)"""
)

LEAVE_OUT = "leave files of settings out with --no-config"
_READABLE = {
    errno.ENOENT: f"name a file that is there, or {LEAVE_OUT}",
    errno.EACCES: f"let this user read it, or {LEAVE_OUT}",
}


class Found(NamedTuple):
    """A file that is there. ``data`` is None where it is not used, and ``why`` says why not."""

    kind: Kind
    path: str
    data: bytes | None
    why: str = ""
    #: somebody else's, who could have meant anything by it
    is_strange: bool = False

    @property
    def is_pyproject(self) -> bool:
        """Whether ours is a table of it."""
        return os.path.basename(self.path) == PYPROJECT


def look(named: str | None) -> list[Found]:
    """The files for a command here, the strongest first; with ``named`` that one alone.

    Raises ``SettingsProblem`` where one that would count cannot be read, or is not to be believed.
    """
    if named is not None:
        return [Found("named", os.path.abspath(named), _trusted(named))]
    found = list(_of_project())
    path = user_file()
    if path is not None and os.path.lexists(path):
        found.append(Found("user", path, _trusted(path)))
    return found


def user_file() -> str | None:
    """The user's own, there or not; None for who has no home directory."""
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(xdg):  # then it is to be ignored, says the specification
        found = home()
        if found is None:
            return None
        xdg = os.path.join(found, ".config")
    return os.path.join(xdg, "turnctl", "config.toml")


def _of_project() -> Iterator[Found]:
    """The nearest pyproject.toml that speaks of turnctl, else the nearest turnctl.toml; and what is passed over."""
    used: str | None = None
    for name in (PYPROJECT, PROJECT):
        for folder in _upwards():
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                continue
            if used is not None:
                yield Found("project", path, None, f"{used} is used")
                break
            try:
                data, found = _read(path)
            except SettingsProblem:
                if os.stat(path).st_uid == os.geteuid():
                    raise
                continue  # another's, which is not for us to see
            if name == PYPROJECT and (b"turnctl" not in data or not re.search(_OURS, data, re.MULTILINE | re.DOTALL)):
                continue
            if found.st_uid not in (0, os.geteuid()):
                # in a folder for all anybody can have put it there
                why = f"it belongs to user {found.st_uid}, not to {os.geteuid()}"
                yield Found("project", path, None, why, is_strange=True)
                continue
            yield Found("project", path, data)
            used = path
            break


def _upwards() -> Iterator[str]:
    try:
        folder = os.getcwd()
    except OSError:
        return  # it has been removed
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _trusted(path: str) -> bytes:
    """The content of a file that may say all: nobody else may have written it."""
    if os.path.realpath(path) == os.devnull:
        return b""
    data, found = _read(path)
    if found.st_uid not in (0, os.geteuid()):
        text = f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}, and is not believed"
        raise SettingsProblem(text, f"copy it to a file of your own, or {LEAVE_OUT}")
    if found.st_mode & 0o022:
        import shlex

        text = f"{path} can be written by others ({stat.S_IMODE(found.st_mode):04o}), and is not believed"
        raise SettingsProblem(text, f"chmod go-w {shlex.quote(path)}")
    return data


def _read(path: str) -> tuple[bytes, os.stat_result]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SettingsProblem(f"{path} is no file", f"name a file, or {LEAVE_OUT}")
        # should it have become a pipe by now, that holds nobody up
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(_LARGEST + 1)
    except OSError as error:
        hint = _READABLE.get(error.errno or 0, LEAVE_OUT)
        raise SettingsProblem(f"{path} cannot be read: {in_words(error, of=path)}", hint) from error
    if len(data) > _LARGEST:
        raise SettingsProblem(f"{path} is longer than 1 MiB", f"make it shorter, or {LEAVE_OUT}")
    return data, found
