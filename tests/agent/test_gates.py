"""May this call be carried out? One question, one answer, one record; and nothing but yes is yes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, calls, statuses, stop_inside

from turnctl.agent import AgentLoop, Approval, Call, Decision, Desk, Message, Result, Tool
from turnctl.testing import call_at


class Sent:
    """A tool that needs approval, and counts how often it was carried out, with what."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []

    def __call__(self, **arguments: Any) -> str:
        self.done.append(arguments)
        return "sent"

    @property
    def tool(self) -> Tool:
        return Tool(self, name="send", schema={"type": "object"}, approval=True)


def _loop(sent: Sent, **options: Any) -> AgentLoop:
    return AgentLoop(Played(calls("send", to="ann"), "done"), [sent.tool], **options)


def _kinds(loop: AgentLoop) -> list[str]:
    return [one.kind for one in loop.runs[-1].gates]


def test_an_approval_lets_the_call_run_once() -> None:
    """Approved, it is carried out exactly once; the record says who, and for which arguments."""
    sent, seen = Sent(), []

    def ask(approval: Approval) -> Decision:
        seen.append(approval)
        return Decision(True, "fine with me", by="ann")

    loop = _loop(sent, ask=ask)
    result = loop.run("please")
    gate = result.record.gates[0]

    assert ("completed", [{"to": "ann"}]) == (result.stop_reason, sent.done)
    assert ("approved", "fine with me", "ann", "send", "c1", 1) == (
        gate.kind,
        gate.reason,
        gate.by,
        gate.tool,
        gate.call_id,
        gate.step,
    )
    assert (seen[0].run_id, seen[0].digest) == (result.run_id, gate.digest)
    assert 'allow send {"to": "ann"}? [y/N] ' == str(seen[0])


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (False, "denied", "denied (denied)"),
        ("no", "denied", "denied (denied)"),
        ("use the other address", "denied", "use the other address"),
        (Decision(False, "too late", by="bob"), "denied", "too late"),
        (Decision("yes"), "denied", "denied"),  # type: ignore[arg-type]
        (1, "unanswered", "no answer (1)"),
        (None, "unanswered", "no answer"),
        ("  ", "unanswered", "no answer"),
        (EOFError(), "unanswered", "no answer (EOFError)"),
        (RuntimeError("window is gone"), "unanswered", "asking failed: RuntimeError: window is gone"),
        (SystemExit(0), "unanswered", "asking failed: SystemExit: 0"),
    ],
)
def test_what_is_not_yes_is_no(answer: Any, kind: str, words: str) -> None:
    """A refusal, no answer, one that nobody understands, a failure: not carried out, and the model is told why."""
    sent = Sent()

    def ask(_: Approval) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    loop = _loop(sent, ask=ask)
    result = loop.run("please")

    assert ("completed", [], [kind]) == (result.stop_reason, sent.done, _kinds(loop))
    assert {"c1": "denied"} == statuses(loop)
    assert words in loop.history.feed[2].results[0].text


@pytest.mark.parametrize("answer", [True, "yes", " Y ", "allow", Decision(True)])
def test_what_is_yes(answer: Any) -> None:
    """The ways to say yes."""
    sent = Sent()
    loop = _loop(sent, ask=lambda _: answer)
    loop.run("please")

    assert (1, ["approved"]) == (len(sent.done), _kinds(loop))


@pytest.mark.parametrize(("line", "kind"), [("y", "approved"), ("", "unanswered"), ("n", "denied")])
def test_the_terminal_can_be_asked(line: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ask="terminal"`` reads a line, with the call in its prompt; an empty one is no answer."""
    prompts: list[str] = []
    monkeypatch.setattr("turnctl.waiting.asks.read_line", lambda token, prompt, seconds: prompts.append(prompt) or line)
    loop = _loop(Sent(), ask="terminal")
    loop.run("please")

    assert [kind] == _kinds(loop)
    assert ['allow send {"to": "ann"}? [y/N] '] == prompts


def test_without_anybody_it_is_denied() -> None:
    """A loop with nobody to ask denies, and the text says so."""
    sent = Sent()
    loop = _loop(sent)
    loop.run("please")

    assert ([], ["unanswered"]) == (sent.done, _kinds(loop))
    assert "nobody who could be asked" in loop.history.feed[2].results[0].text


def test_a_deadline_denies_and_is_recorded_as_such() -> None:
    """Nobody answers in time: expired; a late answer is told why it does not count."""
    sent, desk = Sent(), Desk()
    questions: list[Any] = []
    desk = Desk(on_question=questions.append)
    loop = _loop(sent, ask=desk, ask_timeout="20ms")
    result = loop.run("please")

    assert ("completed", [], ["expired"]) == (result.stop_reason, sent.done, _kinds(loop))
    assert not desk.answer(questions[0].id, True)
    assert "its time is over" in (questions[0].answer(True).why or "")


def test_changed_arguments_are_asked_for_again() -> None:
    """A hook that changes what was approved has it asked again; what runs is what was approved last."""
    sent, asked = Sent(), []

    class Host:
        def before_tool(self, call: Call) -> Any:
            return {"to": "bob"}

    loop = _loop(sent, ask=lambda approval: asked.append(dict(approval.arguments)) or True, hooks=Host())
    loop.run("please")

    assert [{"to": "ann"}, {"to": "bob"}] == asked
    assert [{"to": "bob"}] == sent.done
    assert 2 == len({one.digest for one in loop.runs[-1].gates})


def test_arguments_that_change_for_ever_are_refused() -> None:
    """A hook that never leaves them alone: denied, after a few questions."""
    sent, count = Sent(), iter(range(100))

    class Host:
        def before_tool(self, call: Call) -> Any:
            return {"to": f"someone {next(count)}"}

    loop = _loop(sent, ask=lambda _: True, hooks=Host())
    loop.run("please")

    assert [] == sent.done
    assert 5 == len(loop.runs[-1].gates)


def test_whoever_is_asked_cannot_change_what_runs() -> None:
    """The arguments in the question are a copy."""
    sent = Sent()

    def ask(approval: Approval) -> bool:
        approval.arguments["to"] = "mallory"
        return True

    _loop(sent, ask=ask).run("please")

    assert [{"to": "ann"}] == sent.done


@pytest.mark.parametrize("how", ["raises", "result"])
def test_a_refusal_after_the_approval_keeps_the_record(how: str) -> None:
    """A hook that refuses what was approved: denied, and the approval stays on record."""
    sent = Sent()

    class Host:
        def before_tool(self, call: Call) -> Any:
            if how == "raises":
                raise RuntimeError("the breaker of this tool is open")
            return Result(call.id, "this call was made three times over", "denied")

    loop = _loop(sent, ask=lambda _: True, hooks=Host())
    loop.run("please")

    assert ([], ["approved"], {"c1": "denied"}) == (sent.done, _kinds(loop), statuses(loop))


# -- against a stop ---------------------------------------------------------------------------------------------------


def _at_desk(sent: Sent, then: Callable[[AgentLoop, Desk, Any], Any]) -> tuple[AgentLoop, Any, Any]:
    """A run that parks at a desk; ``then`` is done from another thread when it does."""
    parked, gate = [], Gate()

    def on_question(question: Any) -> None:
        parked.append(question)
        gate.reached.set()

    desk = Desk(on_question)
    loop = _loop(sent, ask=desk)
    stopped = stop_inside(loop, gate, stop=lambda: then(loop, desk, parked[0]))
    return loop, stopped, parked[0]


def test_a_stop_beats_an_approval_that_had_landed() -> None:
    """Cancelled while parked, though the approval came first: one record, cancelled; nothing is carried out."""
    sent = Sent()

    def both(loop: AgentLoop, desk: Desk, question: Any) -> Any:
        # the asker is held until both are there
        answers = []
        with call_at("question.settled", lambda: answers.append(loop.cancel("now"))):
            answers.append(desk.answer(question.id, True))
        return answers

    loop, stopped, _ = _at_desk(sent, both)
    gate = loop.runs[-1].gates

    assert "accepted" == stopped.answer[0].kind
    assert bool(stopped.answer[1])  # it was first, and is evidence
    assert [("cancelled", "while awaiting approval")] == [(one.kind, one.reason) for one in gate]
    assert ([], "cancelled") == (sent.done, stopped.result.stop_reason)


def test_a_stop_withdraws_the_question() -> None:
    """Cancelled is not declined; what is answered afterwards does not count, and is told why."""
    sent = Sent()
    loop, stopped, question = _at_desk(sent, lambda loop, desk, _: loop.cancel("now"))

    assert ["cancelled"] == _kinds(loop)
    assert "cancelled" == question.state
    assert "withdrawn" in (question.answer(True).why or "")
    assert stopped.took_s < 1
    assert [] == sent.done


def test_two_answers_are_one() -> None:
    """The first counts; the second is told so."""
    sent = Sent()
    loop, stopped, question = _at_desk(
        sent, lambda _, desk, one: (desk.answer(one.id, True), desk.answer(one.id, False))
    )

    assert [True, False] == [bool(one) for one in stopped.answer]
    assert (1, ["approved"]) == (len(sent.done), _kinds(loop))
    assert "answered already" in (question.answer(False).why or "")


def test_a_desk_that_closes_leaves_all_unanswered() -> None:
    """Whoever could be asked has gone: what waits and what comes later is not carried out, and the run goes on."""
    sent = Sent()
    loop, stopped, _ = _at_desk(sent, lambda _, desk, __: desk.close())

    assert ("completed", [], ["unanswered"]) == (stopped.result.stop_reason, sent.done, _kinds(loop))
    loop.model.replies[:] = [calls("send", to="bob"), "done"]
    assert "completed" == loop.run("again").stop_reason
    assert ([], ["unanswered"]) == (sent.done, _kinds(loop))


def test_a_stop_inside_the_approved_tool_keeps_the_approval() -> None:
    """Approved, then cancelled in the tool: the approval stays on record, the outcome is unknown."""
    with Gate() as gate:
        tool = Tool(gate.pass_through, name="send", schema={"type": "object"}, approval=True)
        loop = AgentLoop(Played(calls("send")), [tool], ask=lambda _: True)
        stop_inside(loop, gate)

        assert (["approved"], {"c1": "cancelled_unknown"}) == (_kinds(loop), statuses(loop))


def test_a_question_after_the_stop_asks_nobody() -> None:
    """A stop that was accepted before the question: nobody is asked, and nothing waits."""
    sent, asked = Sent(), []

    def stops() -> Message:
        loop.cancel("before the question")
        return calls("send", to="ann")

    loop = AgentLoop(Played(stops), [sent.tool], ask=lambda _: asked.append(1) or True, patience=5)
    before = time.monotonic()
    result = loop.run("please")

    assert "cancelled" == result.stop_reason
    assert ([], []) == (asked, sent.done)
    assert time.monotonic() - before < 2


def test_two_questions_at_once_have_an_answer_each() -> None:
    """Calls side by side park at the same time, and each gets its own answer."""
    sent, both = Sent(), threading.Event()
    questions: list[Any] = []

    def on_question(question: Any) -> None:
        questions.append(question)
        if len(questions) == 2:
            both.set()

    desk = Desk(on_question)
    reply = Message.assistant("", [Call("a", "send", {"to": "ann"}), Call("b", "send", {"to": "bob"})])
    loop = AgentLoop(Played(reply, "done"), [sent.tool], ask=desk, parallel=2)

    def people() -> None:
        assert both.wait(10)
        for question in desk.pending:
            desk.answer(question.id, question.prompt.call_id == "b")

    person = threading.Thread(target=people)
    person.start()
    loop.run("please")
    person.join()

    assert [{"to": "bob"}] == sent.done
    assert {"a": "denied", "b": "completed"} == statuses(loop)
    assert {"approved", "denied"} == set(_kinds(loop))
    assert () == desk.pending


def test_a_question_put_behind_a_stop_is_answered_at_once() -> None:
    """A stop accepted before the question was put: nobody is asked, one record, cancelled; it waits for nothing."""
    sent, asked = Sent(), []

    tool = Tool(sent, name="send", schema={"type": "object"}, approval=True)
    loop = AgentLoop(Played(calls("send", to="ann"), "never"), [tool], ask=Desk(asked.append), ask_timeout=300)
    before = time.monotonic()
    with call_at("gate.asking", lambda: loop.cancel("before it was put")):
        loop.run("please")

    assert time.monotonic() - before < 1
    assert ([], [], ["cancelled"]) == (asked, sent.done, _kinds(loop))
    assert "while awaiting approval" == loop.runs[-1].gates[0].reason


def test_a_stop_withdraws_every_question() -> None:
    """Two that are parked at once: one record each, cancelled; answers that come later are false, and start nothing."""
    sent, gate = Sent(), Gate()
    questions: list[Any] = []
    loop, desk = _two_at_desk(sent, questions, gate)
    stopped = stop_inside(loop, gate)
    late = [desk.answer(one.id, True) for one in questions] + [one.answer(True) for one in questions]

    assert (["cancelled"] * 2, []) == (_kinds(loop), sent.done)
    assert {"a", "b"} == {one.call_id for one in loop.runs[-1].gates}
    assert not any(late)
    assert not desk.answer("no such question", True)
    assert stopped.took_s < 1
    loop.model.replies[:] = ["fine"]
    assert "fine" == loop.run("again").text


def test_a_desk_that_closes_denies_all_that_wait() -> None:
    """Whoever could be asked has gone, and two were waiting: neither is carried out, and the model is told of each."""
    sent, gate = Sent(), Gate()
    loop, desk = _two_at_desk(sent, [], gate)
    stopped = stop_inside(loop, gate, stop=desk.close)

    assert ("completed", ["unanswered"] * 2, []) == (stopped.result.stop_reason, _kinds(loop), sent.done)
    assert {"a": "denied", "b": "denied"} == statuses(loop)


def _two_at_desk(sent: Sent, questions: list[Any], gate: Gate) -> tuple[AgentLoop, Desk]:
    def on_question(question: Any) -> None:
        questions.append(question)
        if len(questions) == 2:
            gate.reached.set()

    desk = Desk(on_question)
    reply = Message.assistant("", [Call("a", "send", {"to": "ann"}), Call("b", "send", {"to": "bob"})])
    return AgentLoop(Played(reply, "done"), [sent.tool], ask=desk, parallel=2), desk


@pytest.mark.parametrize("terminal", [False, True])
def test_ctrl_c_at_a_question_is_never_yes(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes out of the run, which is cancelled; the question is on record as without an answer."""

    def pressed(*_: Any) -> Any:
        raise KeyboardInterrupt

    sent = Sent()
    monkeypatch.setattr("turnctl.waiting.asks.read_line", pressed)
    loop = _loop(sent, ask="terminal" if terminal else pressed)
    with pytest.raises(KeyboardInterrupt):
        loop.run("please")

    assert ([], ["unanswered"]) == (sent.done, _kinds(loop))
    assert ("cancelled", "signal") == (loop.runs[0].stop_reason, loop.runs[0].cause)
    loop.model.replies[:] = ["fine"]
    assert "fine" == loop.run("again").text


def test_an_end_of_file_at_the_terminal_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-D, or a standard input that is closed: not carried out, and the run goes on."""

    def ended(*_: Any) -> Any:
        raise EOFError

    sent = Sent()
    monkeypatch.setattr("turnctl.waiting.asks.read_line", ended)
    loop = _loop(sent, ask="terminal")

    assert "completed" == loop.run("please").stop_reason
    assert ([], ["unanswered"], {"c1": "denied"}) == (sent.done, _kinds(loop), statuses(loop))
