"""The error of a failed run: what the host needs to find its cause, and nothing of the run that it would keep alive."""

from __future__ import annotations

import gc
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from loops import Played

from turnctl.agent import AgentLoop, RunResult
from turnctl.agent.running import Run


class Thing:
    """Something that can be looked for."""


class Down(Exception):
    """An error of a test."""


def _fails(*_: Any) -> Any:
    clue = "the variable that tells why"
    raise Down(f"no: {len(clue)}")


def _fails_from_another(*_: Any) -> Any:
    try:
        _fails()
    except Down as error:
        raise Down("outer") from error


def _fails_in_a_group(*_: Any) -> Any:
    try:
        _fails()
    except Down as error:
        raise ExceptionGroup("several", [error, Down("too")]) from None


class Writes:
    def stream(self, *_: Any) -> Iterator[str]:
        yield "half"
        _fails()


def _nested(*_: Any) -> Any:
    AgentLoop(_fails).run("inner").unwrap()


MODELS = {
    "plain": _fails,
    "chained": _fails_from_another,
    "group": _fails_in_a_group,
    "written": Writes(),
    "nested": _nested,
    "no reply": lambda *_: 7,
}


def _run(model: Any) -> tuple[RunResult, list[weakref.ref[Any]]]:
    """A run that fails, and references to what only it and its caller had."""
    held = Thing()
    loop = AgentLoop(model, hooks=type("Hooks", (), {"before_step": lambda *_: None})())
    return loop.run("go"), [weakref.ref(held), weakref.ref(loop), weakref.ref(loop.history)]


def _runs() -> list[Run]:
    return [one for one in gc.get_objects() if type(one) is Run]


@pytest.mark.parametrize("name", MODELS)
def test_a_failed_result_keeps_nothing_of_its_run(name: str) -> None:
    """Neither the run, nor its loop, nor what stood on the stack of its caller; no collector has to find that out."""
    gc.collect()
    before = _runs()  # of other tests, whose errors pytest keeps
    gc.disable()
    try:
        result, references = _run(MODELS[name])
        alive = [one() for one in references]
    finally:
        gc.enable()

    assert "failed" == result.stop_reason
    assert [None] * 3 == alive
    assert [] == [one for one in _runs() if not any(one is known for known in before)]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "no reply"])
def test_its_traceback_leads_to_the_cause(name: str) -> None:
    """``unwrap`` raises the error itself, from where that is called to the line that failed, with variables of it."""
    result, _ = _run(MODELS[name])
    with pytest.raises((Down, ExceptionGroup)) as raised:
        result.unwrap()
    text = "".join(traceback.format_exception(raised.value))

    assert result.error is raised.value
    assert "result.unwrap()" in text
    assert 'raise Down(f"no: {len(clue)}")' in text
    assert "in _step_within" in text
    assert "in drive\n" not in text
    assert "the variable that tells why" in _variables(raised.value)


def _variables(error: BaseException | None) -> list[Any]:
    """The values of all variables that a debugger would find along the error, and along what it came of."""
    if error is None:
        return []
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    found = [value for frame in frames for value in frame.f_locals.values() if isinstance(value, str)]
    return [*found, *_variables(error.__cause__), *(value for one in inner for value in _variables(one))]


def test_each_unwrap_has_a_traceback_of_its_own() -> None:
    """A result that is unwrapped again and again does not grow, and does not keep who did it."""
    result, _ = _run(_fails)
    lengths = []
    for _ in range(3):
        with pytest.raises(Down) as raised:
            result.unwrap()
        lengths.append(len(traceback.extract_tb(raised.value.__traceback__)))

    assert 1 == len(set(lengths))


def test_a_generator_of_the_host_that_rests_goes_on() -> None:
    """One that had met the error and waits to be asked again is not ended for it."""
    ended: list[str] = []

    def asks() -> Iterator[Any]:
        try:
            try:
                _fails()
            except Down as error:
                yield error
            yield "still here"
        finally:
            ended.append("ended")

    source = asks()

    def model(*_: Any) -> Any:
        raise next(source)

    result, _ = _run(model)

    assert isinstance(result.error, Down)
    assert ([], "still here") == (ended, next(source))
    source.close()


def test_an_error_of_the_callers_thread_keeps_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread could be started, the error tells it all, and holds nothing of who asked for it."""

    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        result, references = _run(Played("never"))
    gc.collect()

    assert "thread" in str(result.error)
    assert [None] * 3 == [one() for one in references]
    with pytest.raises(BlockingIOError):
        result.unwrap()
