"""What a command cannot do, in the form in which a person and a program are told of it."""

from __future__ import annotations

from turnctl.cli.codes import Code
from turnctl.errors import StoreError, StoreMissing
from turnctl.spelling import in_words

__all__ = ["SCHEMA", "Problem", "of_fault", "of_store", "of_system"]

SCHEMA = "turnctl.error/1"


class Problem(Exception):
    """Why a command comes to nothing: ``word`` for programs, what and what to do for people, and its exit status."""

    def __init__(self, word: str, message: str, hint: str, status: Code) -> None:
        super().__init__(message)
        self.word = word
        self.message = message
        self.hint = hint
        self.status = status

    def as_dict(self) -> dict[str, str]:
        """As it is printed with ``--json``."""
        return {"schema": SCHEMA, "code": self.word, "message": self.message, "hint": self.hint}


def of_store(error: StoreError) -> Problem:
    """For a ledger that cannot be used; its own text says what to do after the semicolon or the colon."""
    text = str(error)
    message, _, hint = text.partition("; ")
    if not hint:
        message, _, hint = text.rpartition(": ")
    name = type(error).__name__.removeprefix("Store").lower()
    status = Code.NO_SUCH if isinstance(error, StoreMissing) else Code.UNUSABLE
    return Problem(f"store_{name}", message or text, hint or "turnctl doctor shows more of it", status)


def of_system(error: OSError) -> Problem:
    """For what the machine refuses: no descriptor, no room, a folder that is gone."""
    return Problem("system_refused", in_words(error), "turnctl doctor shows what this machine lacks", Code.UNUSABLE)


def of_fault(error: Exception) -> Problem:
    """For a fault of turnctl itself, as ``faults.tell_of_fault`` tells it."""
    message = f"internal error: {type(error).__name__}: {' '.join(str(error).split())}"
    hint = "this is a fault of turnctl; TURNCTL_DEBUG=1 shows where it arose"
    return Problem("internal", message, hint, Code.BUG)
