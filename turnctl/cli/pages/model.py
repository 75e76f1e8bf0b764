"""A page: what there is to know of one command, as plain values that help, man pages and documents are written from.

It is read off the command itself (``pages.reading``), so that no text can name an option that is not there. Nothing in
here knows a form: how wide a terminal is, what roff has to escape, what a table of Markdown looks like.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["SCHEMA", "Example", "Group", "Option", "Page", "Rows", "objects"]

SCHEMA = "turnctl.page/1"

#: pairs of a word and what it means
Rows = tuple[tuple[str, str], ...]


class Example(NamedTuple):
    """A call that can be copied, and what it is for."""

    call: str
    what: str


class Option(NamedTuple):
    """An option, with all its names; ``metavar`` is None for a flag."""

    names: tuple[str, ...]
    metavar: str | None
    help: str
    default: str | None = None
    env: tuple[str, ...] = ()
    is_repeatable: bool = False
    is_required: bool = False

    @property
    def term(self) -> str:
        """As it is written: "-s, --session NAME"."""
        return ", ".join(self.names) + (f" {self.metavar}" if self.metavar else "")

    @property
    def facts(self) -> tuple[str, ...]:
        """What is to be said of it besides its help, each in a few words; of its variables the strongest."""
        found: tuple[str, ...] = ("required",) if self.is_required else ()
        if self.default is not None:
            found += (f"default: {self.default}",)
        return found + tuple(f"env: {name}" for name in self.env[:1])


class Group(NamedTuple):
    """Options that belong together."""

    title: str
    options: tuple[Option, ...]


class Page(NamedTuple):
    """All of it, of one command."""

    #: as it is called: "turnctl ledger verify"
    name: str
    summary: str
    synopsis: str
    examples: tuple[Example, ...] = ()
    #: what it does, one step after the other
    steps: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    #: the commands that it has, with their summaries
    commands: Rows = ()
    #: what ``turnctl help`` tells besides
    topics: Rows = ()
    #: words that it shows or takes, and what they mean
    tables: tuple[tuple[str, Rows], ...] = ()
    #: what its exit statuses mean
    codes: Rows = ()
    #: paragraphs
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Its name in file names: "turnctl-ledger-verify"."""
        return self.name.replace(" ", "-")

    @property
    def environment(self) -> Rows:
        """The variables that it reads, each with the option that is stronger."""
        return tuple(
            (name, next((one for one in option.names if one.startswith("--")), option.names[0]))
            for group in self.groups
            for option in group.options
            for name in option.env
        )

    def as_dict(self) -> dict[str, Any]:
        """It as an object of JSON, schema ``turnctl.page/1``."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "summary": self.summary,
            "synopsis": self.synopsis,
            "examples": [one._asdict() for one in self.examples],
            "steps": list(self.steps),
            "groups": [
                {
                    "title": group.title,
                    "options": [
                        {**one._asdict(), "names": list(one.names), "env": list(one.env)} for one in group.options
                    ],
                }
                for group in self.groups
            ],
            "commands": objects(self.commands),
            "topics": objects(self.topics),
            "tables": [{"title": title, "rows": objects(rows)} for title, rows in self.tables],
            "codes": objects(self.codes),
            "notes": list(self.notes),
        }


def objects(rows: Rows) -> list[dict[str, str]]:
    """Words with what they mean, for JSON."""
    return [{"word": word, "meaning": meaning} for word, meaning in rows]
