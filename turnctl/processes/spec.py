"""What is to be run, checked before anything is started."""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, Literal, NamedTuple

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.processes.containment import Choice, Require, Wish, read_wish
from turnctl.processes.hygiene import Hygiene
from turnctl.processes.request import Leftovers
from turnctl.processes.signames import number_of
from turnctl.processes.ttys import NewTty, read_tty
from turnctl.tokens.activities import Owner

__all__ = ["Args", "Details", "Spec", "Stream", "Tty", "make_spec", "read_stream"]

Args = Sequence["str | bytes | os.PathLike[str]"] | str | bytes | os.PathLike[str]
Stream = int | IO[Any] | Literal["inherit", "null", "pipe"] | None
Tty = Literal["inherit", "new"]

#: the numbers that ``subprocess`` gives to PIPE, STDOUT and DEVNULL
_NAMES_OF_NUMBERS = {-1: "pipe", -2: "stdout", -3: "null"}
_TITLE_LENGTH = 80
_USUAL = Hygiene()


class Details(NamedTuple):
    """What only the stand-in for ``subprocess`` asks for, by the names that ``Popen`` has for it."""

    executable: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None
    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None
    restore_signals: bool = True


class Spec(NamedTuple):
    """One command, as it will be started."""

    given: tuple[str, ...] | str
    args: list[str | bytes] | str | bytes
    argv: tuple[str, ...]
    shell: bool
    cwd: str | bytes | None
    env: Mapping[Any, Any] | None
    stdin: int | str
    stdout: int | str
    stderr: int | str
    timeout_s: float | None
    grace_s: float | None
    stop_signal: int
    #: a session of its own, or a process group in ours
    terminal: Literal["session", "group"]
    tty: Tty | None
    close_fds: bool
    on_start: Callable[[int], None] | None
    before_exec: Callable[[], None] | None
    wish: Wish = Wish()
    leftovers: Leftovers = "end"
    #: who gets them with ``detach``
    heir: Owner | None = None
    idle_s: float | None = None
    pass_fds: tuple[int, ...] = ()
    hygiene: Hygiene = Hygiene()
    details: Details = Details()
    #: rows, columns and echo of a new terminal
    new_tty: NewTty | None = None

    @property
    def title(self) -> str:
        """The command in one line, cut where it is long."""
        text = " ".join(self.argv) if isinstance(self.given, tuple) else self.given
        text = text.encode("unicode_escape", "backslashreplace").decode("ascii") if "\n" in text else text
        return text if len(text) <= _TITLE_LENGTH else f"{text[: _TITLE_LENGTH - 1]}…"


def make_spec(
    args: Args,
    *,
    shell: bool,
    cwd: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None,
    env: Mapping[Any, Any] | None,
    stdin: int | str,
    stdout: int | str,
    stderr: int | str,
    timeout: float | str | None,
    grace: float | str | None,
    stop_signal: int | str,
    tty: Tty | None,
    close_fds: bool,
    on_start: Callable[[int], None] | None,
    before_exec: Callable[[], None] | None,
    containment: Choice | None = None,
    require: Require | None = None,
    leftovers: Leftovers = "end",
    heir: Owner | None = None,
    idle_timeout: float | str | None = None,
    pass_fds: Iterable[int | IO[Any]] = (),
    hygiene: Hygiene = _USUAL,
    tty_size: tuple[int, int] | None = None,
    tty_echo: bool = False,
) -> Spec:
    """Check what can be checked without starting anything. Raises ``BadArgument`` (a ``ValueError``),
    ``BadDuration`` or ``TypeError``.
    """
    new_tty = read_tty(tty, tty_size, tty_echo)
    if leftovers not in ("end", "end-now", "wait", "detach"):
        raise BadArgument(f"unknown leftovers {leftovers!r}; use end, end-now, wait or detach")
    checked, given, argv = _read_args(args, shell)
    grace_s = None if grace is None else parse_duration(grace, what="grace", zero=True)
    return Spec(
        given=given,
        args=checked,
        argv=argv,
        shell=shell,
        cwd=_read_cwd(cwd),
        env=_read_env(env),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        timeout_s=parse_duration(timeout, what="timeout", none=True),
        grace_s=grace_s,
        stop_signal=read_signal(stop_signal),
        terminal="group" if tty == "inherit" else "session",
        tty=tty,
        close_fds=close_fds,
        on_start=on_start,
        before_exec=before_exec,
        wish=read_wish(containment, require),
        leftovers=leftovers,
        heir=heir,
        idle_s=parse_duration(idle_timeout, what="idle_timeout", none=True),
        pass_fds=_read_pass_fds(pass_fds, close_fds=close_fds),
        hygiene=hygiene,
        new_tty=new_tty,
    )


def _read_args(
    args: Args, shell: bool
) -> tuple[list[str | bytes] | str | bytes, tuple[str, ...] | str, tuple[str, ...]]:
    if isinstance(args, (str, bytes, os.PathLike)):
        one = os.fspath(args)
        _refuse_nul(one, "the command")
        if not one:
            raise BadArgument("the command is empty; give a program and its arguments, such as ['ls', '-l']")
        text = os.fsdecode(one)
        return one, text, ("/bin/sh", "-c", text) if shell else (text,)
    try:
        items = [os.fspath(item) for item in args]
    except TypeError:
        bad = _first_that_is_no_text(args)
        raise TypeError(
            f"{bad}; each argument of a command is a str, bytes or a path, so convert it with str()"
        ) from None
    if not items:
        raise BadArgument("argv is empty; give at least the program to run, such as ['ls', '-l']")
    for at, item in enumerate(items):
        _refuse_nul(item, f"argv[{at}]")
    texts = tuple(os.fsdecode(item) for item in items)
    return items, texts, ("/bin/sh", "-c", *texts) if shell else texts


def _read_cwd(cwd: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None) -> str | bytes | None:
    if cwd is None:
        return None
    if not isinstance(cwd, (str, bytes, os.PathLike)):
        raise TypeError(f"cwd is {cwd!r}, of type {type(cwd).__name__}; give the folder as a str, bytes or a path")
    path = os.fspath(cwd)
    _refuse_nul(path, "cwd")
    if not path:
        raise BadArgument("cwd is empty; give a folder, or None for the current one")
    return path


def _read_env(env: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
    if env is None:
        return None
    if not isinstance(env, Mapping):
        raise TypeError(
            f"env is of type {type(env).__name__}; give names and values, such as {{**os.environ, 'A': 'b'}}"
        )
    for name, value in env.items():
        for what, one in (("a name", name), (f"the value of {name!r}", value)):
            if not isinstance(one, (str, bytes, os.PathLike)):
                raise TypeError(f"{what} in env is {one!r}, of type {type(one).__name__}; convert it with str()")
            _refuse_nul(os.fspath(one), f"{what} in env")
        if not name or "=" in os.fsdecode(name):
            raise BadArgument(f"env has the name {name!r}, which none can have: a name is not empty and has no =")
    return env


def _read_pass_fds(given: Iterable[int | IO[Any]], *, close_fds: bool) -> tuple[int, ...]:
    if isinstance(given, (int, str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"pass_fds is {given!r}; give a list of open files or descriptors")
    fds = [_descriptor(one, f"pass_fds[{at}]", "give open files or descriptors") for at, one in enumerate(given)]
    if fds and not close_fds:
        raise BadArgument(
            "close_fds=False hands on all that is inheritable, and pass_fds names what is; give one of them"
        )
    for fd in fds:
        if fd <= 2:
            raise BadArgument(f"pass_fds has {fd}, a standard stream; stdin=, stdout= and stderr= are for those")
    return tuple(sorted(set(fds)))


def _first_that_is_no_text(args: Any) -> str:
    try:
        for at, item in enumerate(args):
            if not isinstance(item, (str, bytes, os.PathLike)):
                return f"argv[{at}] is {item!r}, of type {type(item).__name__}"
    except TypeError:
        pass
    return f"the command is {args!r}, of type {type(args).__name__}"


def _refuse_nul(item: str | bytes, what: str) -> None:
    at = item.find("\0") if isinstance(item, str) else item.find(b"\0")
    if at >= 0:
        raise BadArgument(
            f"{what} has a NUL character at position {at}, which the system cannot hand on to a command; "
            "remove it, or hand such data over with input="
        )


def read_signal(given: int | str) -> int:
    """The number of a signal that is given by name ("TERM", "SIGTERM", "RTMIN+1") or number."""
    if not isinstance(given, (int, str)):
        raise TypeError(
            f"stop_signal is {given!r}, of type {type(given).__name__}; give a name such as TERM, or a number"
        )
    number = number_of(given)
    if number is None:
        raise BadArgument(
            f"unknown stop_signal {given!r}; use a name such as TERM, INT or RTMIN+1, or the number of a signal"
        )
    return number


def read_stream(given: Stream, default: str, *, what: str, allowed: tuple[str, ...]) -> int | str:
    """What a stream is connected to: a descriptor, or one of the words in ``allowed``.

    Takes the constants of ``subprocess`` and anything with a ``fileno()`` as well.
    """
    if given is None:
        return default
    choice = f"use one of {', '.join(allowed)}, or an open file or descriptor"
    if isinstance(given, bool):
        raise TypeError(f"{what}={given!r} is not possible; {choice}")
    if isinstance(given, int) and given < 0:
        word = _NAMES_OF_NUMBERS.get(given, str(given))
    elif isinstance(given, str):
        word = given
    else:
        return _descriptor(given, what, choice)
    if word not in allowed:
        raise BadArgument(f"{what}={given!r} is not possible here; {choice}")
    return word


def _descriptor(given: Any, what: str, choice: str) -> int:
    """The number of an open file, which has been looked at: a wrong one would be found in the child, and not named."""
    if isinstance(given, int):
        fd = given
    elif callable(getattr(given, "fileno", None)):
        try:
            fd = given.fileno()
        except (OSError, ValueError) as error:  # closed, or a file in memory
            raise BadArgument(f"{what}={given!r} has no descriptor ({error}); {choice}") from error
    else:
        raise TypeError(f"{what} is {given!r}, of type {type(given).__name__}; {choice}")
    try:
        os.fstat(fd)
    except (OSError, OverflowError, TypeError):
        raise BadArgument(f"{what}={given!r} is no open descriptor; {choice}") from None
    return int(fd)
