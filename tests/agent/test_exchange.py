"""What a model is asked, what it may give, and how its own ``abort`` is used when it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, Writing, calls, feed_is_strict, statuses, stop_inside
from standins import until

from turnctl.agent import AgentLoop, Call, Message, Reply, Retry, Tool
from turnctl.waiting import abandoned

#: ten times what is promised, and a floor: the machine of a test is shared
PROMPT_S = 1.0


def _played(gate: Gate) -> Played:
    return Played(gate.pass_through)


def _writing(gate: Gate) -> Writing:
    return Writing(["par", "tial", gate.pass_through, "x"])


def _aborting(make: Callable[[Gate], Any], gate: Gate, abort: Callable[[], object]) -> Any:
    model = make(gate)
    model.abort = abort
    return model


@pytest.mark.parametrize("make", [_played, _writing])
def test_a_stopped_model_is_aborted_once(make: Callable[[Gate], Any]) -> None:
    """``abort`` closes what the model is blocked on: called once, on another thread, and that ends it."""
    with Gate() as gate:
        aborted: list[int] = []

        def abort() -> None:
            aborted.append(threading.get_ident())
            gate.open()

        threads: list[int] = []
        model = _aborting(make, gate, abort)
        loop = AgentLoop(model, patience=10, hooks=type("H", (), {"before_step": lambda *_: threads.append(_me())})())
        stopped = stop_inside(loop, gate)

    assert ("cancelled", 1) == (stopped.result.stop_reason, len(aborted))
    assert aborted[0] not in {threading.get_ident(), *threads}
    assert () == stopped.result.report.alive
    assert not abandoned.count()


def _me() -> int:
    return threading.get_ident()


@pytest.mark.parametrize("make", [_played, _writing])
def test_an_abort_that_hangs_holds_nothing_up(make: Callable[[Gate], Any]) -> None:
    """It has the patience, as the model has; then both are left behind, and the report says so."""
    with Gate() as gate, Gate() as hanging:
        loop = AgentLoop(_aborting(make, gate, hanging.pass_through))
        stopped = stop_inside(loop, gate)

        assert "cancelled" == stopped.result.stop_reason
        assert stopped.took_s < PROMPT_S
        assert 1 == hanging.count
        assert 2 == abandoned.count()
        assert "has not come back" in " ".join(stopped.result.report.notes)
    assert until(lambda: not abandoned.count())


@pytest.mark.parametrize("make", [_played, _writing])
def test_an_abort_that_fails_is_noted(make: Callable[[Gate], Any]) -> None:
    """What it raises changes nothing of the stop, and is in the report."""

    def fails() -> None:
        raise OSError("no such connection")

    with Gate() as gate:
        stopped = stop_inside(AgentLoop(_aborting(make, gate, fails)), gate)

        assert "cancelled" == stopped.result.stop_reason
        assert until(lambda: "no such connection" in " ".join(stopped.result.report.notes))


def test_a_model_that_is_not_stopped_is_not_aborted() -> None:
    """A run that comes to its end, and one that is stopped while a tool runs, abort no model."""
    aborted: list[int] = []
    with Gate() as gate:
        model = Writing([calls("gate")])
        model.abort = lambda: aborted.append(1)  # type: ignore[attr-defined]
        loop = AgentLoop(model, [Tool(gate.pass_through, name="gate", schema={"type": "object"})])
        stop_inside(loop, gate)
    loop.model.replies[:] = [["fine"]]

    assert "fine" == loop.run("again").text
    assert [] == aborted


@pytest.mark.parametrize("piece", [None, 3, b"text", ["text", 3], Message.user("hello"), {"text": "x"}])
def test_a_piece_that_is_none_is_an_error(piece: Any) -> None:
    """What a stream must not give is told as a failure of the model, and never passed over in silence."""
    loop = AgentLoop(Writing(["be", piece, "hind"]), retry=Retry(1))
    result = loop.run("please")

    assert "failed" == result.stop_reason
    assert "a model gives a Reply" in str(result.record.error)
    assert "be" == str(result.record.partial)[:2]
    feed_is_strict(loop)


@pytest.mark.parametrize("last", [[Call("c1", "word", {})], Call("c1", "word", {}), Reply(calls("word"))])
def test_a_stream_may_end_with_what_a_model_gives(last: Any) -> None:
    """The last item of a stream is what ``complete`` may give: calls, a message, a reply."""
    loop = AgentLoop(Writing([last], ["done"]), {"word": lambda: "word"})

    assert "done" == loop.run("please").unwrap()
    assert {"c1": "completed"} == statuses(loop)


@pytest.mark.parametrize(("patience", "grace", "said"), [("30ms", "5s", "30ms"), ("5s", "30ms", "the grace")])
def test_what_was_left_is_told_with_the_time_it_had(patience: str, grace: str, said: str) -> None:
    """The report names the bound that was over, the patience or the grace, whichever was nearer."""
    with Gate() as gate:
        stopped = stop_inside(AgentLoop(_played(gate), patience=patience, grace=grace), gate)

        details = [str(one.detail) for one in stopped.result.report.activities if one.state == "abandoned"]
        assert [True] == [one.endswith(f"it did not come back within {said}") for one in details]
