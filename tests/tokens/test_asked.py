"""A stop is turned into a record by whoever reads it first, and is the same for all."""

from __future__ import annotations

import _thread
import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import turnctl
from turnctl import CancelToken
from turnctl.tokens import asked
from turnctl.tokens.token import TurnToken


def test_record_read_in_the_midst_of_its_making_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that reads the record while it is being made gets the one that everybody gets (A1)."""
    token = CancelToken()
    real = asked.resolved
    seen: list[Any] = []

    def interrupted(raw: asked.RawSite) -> Any:
        monkeypatch.setattr(asked, "resolved", real)
        seen.append(token.record)
        return real(raw)

    answer = token.cancel("enough")
    monkeypatch.setattr(asked, "resolved", interrupted)

    assert answer.record is not None
    assert [answer.record] == seen
    assert token.record is answer.record


def test_line_that_asked_is_kept_for_later() -> None:
    """The record names the line of the call, however much has run since then, and the frame is not kept for it."""
    token = CancelToken()
    at = sys._getframe().f_lineno + 1
    token.cancel()
    for _ in range(3):
        token.cancel("again", grace=1)

    assert token.record is not None
    assert (__file__, at, "test_line_that_asked_is_kept_for_later") == token.record.site


@pytest.mark.parametrize("ask", [lambda turn: turn.cancel(), lambda turn: turn.stop(), lambda turn: turn.event.set()])
def test_line_that_asked_is_the_users(ask: Any) -> None:
    """However many functions of ours are between, the site is the line that called the first of them."""
    with turnctl.turn() as turn:
        ask(turn)

        assert turn.token.record is not None
        assert turn.token.record.site is not None
        assert (__file__, "<lambda>") == (turn.token.record.site[0], turn.token.record.site[2])


def test_stop_with_no_code_around_it_counts() -> None:
    """The interpreter itself may call ``cancel``: as a thread, or at its exit. There is no line then."""
    token = CancelToken()
    _thread.start_new_thread(token.cancel, ())

    assert token.event.wait(30)
    assert token.record is not None
    assert token.record.site is None


def test_answer_reads_as_what_it_holds() -> None:
    """Its text shows the record, not how it is kept."""
    answer = CancelToken().cancel("enough")

    assert repr(answer).startswith("StopAnswer(kind='accepted', record=StopRecord(cause='user', level='cancel'")
    assert repr(answer).endswith("outcome=None, why=None, turn_id=None, session_id=None)")


def test_thread_of_ours_is_no_place_of_the_users() -> None:
    """A stop that no code of the user asked for has no site."""
    with turnctl.turn() as turn:
        turn.set_timeout(0.01)

        assert turn.wait_cancelled(30)
        assert turn.token.record is not None
        assert ("deadline", None) == (turn.token.record.cause, turn.token.record.site)


@pytest.mark.parametrize("read_before", [False, True])
def test_answer_can_be_pickled_and_copied(read_before: bool) -> None:
    """It takes its record along, whether or not somebody has read that before."""
    answer = TurnToken("t1", "chat").cancel("enough", by="ann")
    if read_before:
        assert answer.record is not None
    found, copied = pickle.loads(pickle.dumps(answer)), copy.copy(answer)

    assert answer.record is not None
    assert ("accepted", "t1", "chat") == (found.kind, found.turn_id, found.session_id)
    assert answer.record.as_dict() == found.record.as_dict()
    assert answer.record is copied.record


def test_first_stop_of_a_process_loads_nothing() -> None:
    """What a stop needs was loaded before anybody could wait for it."""
    program = """
import sys, threading, turnctl
turn = turnctl.begin_turn()
loaded = []
def wait():
    try:
        turnctl.bind(turn._turn.sleep)(60)
    except turnctl.CancelledError as error:
        loaded.append(set(sys.modules))
thread = threading.Thread(target=wait)
thread.start()
while not (turn._parts and turn._parts.waiters):
    pass
before = set(sys.modules)
turn.cancel("enough")
thread.join()
print(sorted(loaded[0] - before))
"""
    root = str(Path(turnctl.__file__).parent.parent)
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": root},
        check=True,
    )

    assert "[]" == found.stdout.strip()
