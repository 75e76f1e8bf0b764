"""The topic of the environment: the variables of options, read off the commands, and those that have no option."""

from __future__ import annotations

from turnctl.cli.pages.model import Rows
from turnctl.cli.pages.tree import pages
from turnctl.cli.topics.reading import Part

__all__ = ["OTHERS", "env"]

#: what is read without an option. A test goes through the code for more.
OTHERS = (
    ("TURNCTL_LOG", "info or debug: turnctl's own log on stderr"),
    ("TURNCTL_LOG_FORMAT", "console (the default) or json: the form of that log"),
    ("NO_COLOR", "set to anything: no colour, unless --color says otherwise"),
    (
        "FORCE_COLOR",
        "set to anything: colour also where nobody looks; CLICOLOR_FORCE is the same, NO_COLOR is stronger",
    ),
    ("TERM", "dumb: no colour, and nothing that moves"),
    ("CI", "set to anything: nothing that moves; progress is a line for each change"),
    ("HOME", "~ in what follows, if it is absolute; else the home directory that the system has for this user"),
    ("XDG_STATE_HOME", "the state directory is turnctl in it, if it is absolute; else in ~/.local/state"),
    ("XDG_DATA_HOME", "where turnctl completion --install puts what bash and zsh read; else ~/.local/share"),
    ("XDG_CONFIG_HOME", "your settings are turnctl/config.toml in it, if it is absolute, and fish's; else ~/.config"),
    ("BASH_COMPLETION_USER_DIR", "the same for bash, before XDG_DATA_HOME"),
    ("SHELL", "the shell that turnctl completion is for, where none is named and none called it"),
    ("TMPDIR", "where sockets of commands are made, if it is absolute and this user's"),
)
#: what a command that is run finds there
GIVEN = (
    ("TURNCTL_TURN_ID", "the id of its turn, where it is on record"),
    ("TURNCTL_STATE_DIR", "the state directory that the record is in"),
)


def env() -> list[Part]:
    """All of them."""
    return [
        (
            "Every option can be given by a variable; the option itself is stronger, and files of settings are weaker "
            "(turnctl help config). Several words in one variable are apart by spaces; a switch is 1 or 0, and a count "
            "(-q, -v) a number."
        ),
        ("Variables of options", _of_options()),
        ("Others", OTHERS),
        ("What turnctl run gives to its command", GIVEN),
    ]


def _of_options() -> Rows:
    found: dict[tuple[str, str], list[str]] = {}
    for page in pages():
        for variable, option in page.environment:
            found.setdefault((variable, option), []).append(page.name.removeprefix("turnctl "))
    rows = sorted(found.items())
    return tuple(
        (variable, f"{option} of {', '.join(names) if len(names) < 4 else 'most commands'}")
        for (variable, option), names in rows
    )
