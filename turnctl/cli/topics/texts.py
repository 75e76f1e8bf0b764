"""The topics that are prose, with the few values of the code that they name."""

from __future__ import annotations

from turnctl.cli.common import SHARED
from turnctl.cli.topics.presses import PRESSES
from turnctl.cli.topics.reading import Part
from turnctl.errors import StoreUnsafe

__all__ = ["KEPT", "config", "durations", "files", "names", "output", "signals"]

_NO_HOME = "nowhere: this user has no home directory"
_IN_STATE_DIR = (
    ("ledger.sqlite3", "the ledger, with -wal and -shm while it is in use; copy it by turnctl ledger backup"),
    ("ledger.sqlite3.hwm", "how far the ledger had come, so that an old copy in its place is noticed"),
    ("ledger.sqlite3.bell", "what watchers are woken by"),
    ("README", "what this folder is"),
    ("turns/TURN_ID/", "what was kept of the output of a command"),
)
#: what every man page tells of files
KEPT = tuple((f"$XDG_STATE_HOME/turnctl/{name}", what) for name, what in _IN_STATE_DIR)


def config() -> list[Part]:
    """Where settings come from."""
    from turnctl.cli.settings.places import user_file
    from turnctl.cli.topics.settings import of_commands

    return [
        (
            "Which is stronger",
            (
                ("1", "an option on the command line"),
                ("2", "its variable in the environment, which is in the help of its command (turnctl help env)"),
                (
                    "3",
                    "the project's file: [tool.turnctl] of the nearest pyproject.toml that has it, from here upwards",
                ),
                ("", "else the nearest turnctl.toml"),
                ("4", f"the user's file: {user_file() or 'none, since there is no home directory'}"),
                ("5", "the default"),
            ),
        ),
        (
            "Each setting is looked for by itself. --config FILE, or TURNCTL_CONFIG, names a file that is read in "
            "place of both, and --no-config, or TURNCTL_NO_CONFIG=1, has none read."
        ),
        (
            'In such a file a setting is called as its option: grace = "10s" in the table [run] ([tool.turnctl.run] '
            "in a pyproject.toml) is --grace of turnctl run. Outside of tables are "
            f"{', '.join(sorted({*SHARED} - {'keep'}))}, which are for every command, and keep, which is "
            "--older-than of turnctl ledger prune."
        ),
        (
            "A project's file may say how long, and how things look; it sets nothing that protects you, or says where "
            "something is written, what is kept, or what is run. turnctl doctor --config shows every setting, where it "
            "comes from, and what is wrong."
        ),
        ("What a file may say of one command", of_commands()),
    ]


def durations() -> list[Part]:
    """Spans, moments and sizes."""
    from turnctl.clock import UNITS

    words = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "thousandths of a second"}
    return [
        "A number without a unit is refused, since nobody can tell whether it is of seconds or of minutes.",
        ("Spans (DUR)", tuple((f"1{unit}", words[unit]) for unit in UNITS)),
        (
            "More of them",
            (
                ("1m30s", "several units, the largest first"),
                ("1.5h", "a fraction"),
                ("0s", "no time at all, where that is possible: a grace of 0s kills at once"),
                ("none", "no limit, where that is possible"),
            ),
        ),
        (
            "Moments (TIME)",
            (
                ("42m", "so long ago"),
                ("2026-01-31T14:02:11Z", "as RFC 3339; without a zone it is the local one"),
            ),
        ),
        (
            "Sizes (SIZE)",
            (
                ("64k, 64KiB", "powers of 1024: k, m, g, t, or KiB, MiB, GiB, TiB"),
                ("10MB", "powers of 1000: kB, MB, GB, TB"),
                ("none", "no limit, where that is possible"),
            ),
        ),
    ]


def names() -> list[Part]:
    """How turns and effects are named."""
    from turnctl.cli.names import LEAST

    return [
        (
            "A TURN is",
            (
                ("t7k2m9qf4d", "its id"),
                ("t7k2", f"the beginning of its id, {LEAST} letters or more, that fits no other"),
                ("@", "the newest turn"),
                ("@2", "the one before, and so on"),
                ("session:NAME", "the one that runs in that session; quoted where NAME has a space"),
            ),
        ),
        (
            "An EFFECT is",
            (("e-9f3c", "its id, or the beginning of one that fits no other"),),
        ),
        (
            "Ids are used once, so a late stop cannot reach a later turn. Every answer shows the id that was meant. "
            "The shell completes them (turnctl help completion)."
        ),
    ]


def output() -> list[Part]:
    """stdout, stderr and what is between."""
    return [
        (
            "Data goes to stdout and talk to stderr, each line of it with turnctl: in front. turnctl run leaves "
            "both to its command, and speaks on stderr alone."
        ),
        (
            "What changes it",
            (
                ("--json, --jsonl", "for programs (turnctl help json)"),
                ("-q", "ids alone, or nothing but the exit status; -qq no warning either"),
                ("--color", "words of state are coloured on a terminal; colour never carries a meaning alone"),
                ("--time-format", "relative (on a terminal), iso (RFC 3339 in UTC, elsewhere) or epoch"),
            ),
        ),
        (
            "Ids and columns are cut on a terminal alone. A reader of stdout that has gone ends a command as "
            "SIGPIPE does; an answer that cannot be written is an error."
        ),
    ]


def signals() -> list[Part]:
    """What Ctrl-C and signals do."""
    return [
        ("With turnctl run", PRESSES),
        (
            "On a terminal the command has the foreground, so that Ctrl-C goes to the command: one that handles it "
            "keeps it, one that ignores it is stopped, and three within two seconds stop either."
        ),
        (
            "With every other command Ctrl-C ends the command alone, and leaves the turns that it asks about as they "
            "are: who has stopped waiting for a stop has not taken it back."
        ),
    ]


def files() -> list[Part]:
    """What is kept, and where it is for this user."""
    from turnctl.cli.completing.places import place_of
    from turnctl.cli.settings.places import user_file
    from turnctl.ledger.whereabouts import state_dir

    try:
        place = str(state_dir())
    except StoreUnsafe:
        place = f"the state directory ({_NO_HOME})"
    return [
        (
            "Everything is kept in one folder, the state directory, which is this user's alone (0700, files 0600). "
            "It is made by the first turn that is recorded. --state-dir, or TURNCTL_STATE_DIR, names another."
        ),
        (f"In {place}", _IN_STATE_DIR),
        ("Settings", (("pyproject.toml, turnctl.toml", "of a project"), (user_file() or _NO_HOME, "your own"))),
        (
            "What turnctl completion --install writes",
            tuple((shell, place_of(shell) or _NO_HOME) for shell in ("bash", "zsh", "fish")),
        ),
        "turnctl doctor looks at them; turnctl ledger prune gives room back.",
    ]
