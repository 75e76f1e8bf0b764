"""Answering an option that ``run`` and ``popen`` do not have: with the one that was meant, where that can be told."""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["refuse_unknown"]

#: what ``subprocess`` and others call it
_ELSEWHERE = {
    "argv": "give the command as the first argument",
    "bufsize": "it is not needed: output is read as it comes",
    "capture_output": "capture=True is the default",
    "creationflags": "it is for Windows alone",
    "executable": "give the program as the first word of the command",
    "extra_groups": "credentials cannot be changed here; run it through a tool for that, such as setpriv",
    "group": "credentials cannot be changed here; run it through a tool for that, such as setpriv",
    "kill_after": "here it is grace=",
    "pipesize": "it is not needed: output is read as it comes",
    "preexec_fn": "here it is before_exec=, for a program without threads",
    "process_group": 'every command has a group of its own; tty="inherit" leaves it in this session',
    "restore_signals": "it is not needed: SIGPIPE, SIGXFZ and SIGXFSZ always are at their default in the command",
    "signal": "here it is stop_signal=",
    "start_new_session": 'it is the default; tty="inherit" leaves the command in this session',
    "startupinfo": "it is for Windows alone",
    "rlimits": "here it is limits=",
    "unset_env": "here it is env_unset=",
    "universal_newlines": "here it is text=True",
    "user": "credentials cannot be changed here; run it through a tool for that, such as setpriv",
}
#: what ``popen`` does not have of ``run``
_OF_RUN = {
    "input": 'start it with stdin="pipe", and give it to write()',
    "check": "look at what wait() returns",
    "on_stop": "a handle has outcome() after a stop",
}


def refuse_unknown(function: str, unknown: Iterable[str], known: Collection[str]) -> None:
    """Raise ``TypeError`` for the first of the options that ``function`` does not take."""
    for name in unknown:
        raise TypeError(f"{function}() has no option {name}; {_hint(name, known)}")


def _hint(name: str, known: Collection[str]) -> str:
    meant = _OF_RUN.get(name) or _ELSEWHERE.get(name)
    if meant is not None:
        return meant
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"it has: {', '.join(sorted(known))}"
