"""Misuse that a type checker has to find, and types that it has to know exactly. Read by mypy, never run."""

from __future__ import annotations

from typing import assert_type

import turnctl
from turnctl import StopAnswer, StopResult
from turnctl.agent import AgentLoop, Call, Event, Message, Reply, Result, Tool


def misspelled_option_is_found() -> None:
    turnctl.turn(timout=5)  # type: ignore[call-arg]
    turnctl.begin_turn("chat", grase="5s")  # type: ignore[call-arg]
    turnctl.stop("chat", resaon="enough")  # type: ignore[call-overload]
    turnctl.run(["true"], timout=5)  # type: ignore[call-arg]
    turnctl.popen(["true"], evn={})  # type: ignore[call-arg]


def wrong_value_is_found() -> None:
    turnctl.turn(on_busy="push")  # type: ignore[arg-type]
    turnctl.turn(event="chat")  # type: ignore[arg-type]
    turnctl.stop_all(cause="boredom")  # type: ignore[arg-type]


def stop_without_a_wait_is_an_answer(turn: turnctl.Turn) -> None:
    assert_type(turnctl.stop("chat"), StopAnswer)
    assert_type(turn.stop("enough"), StopAnswer)
    assert_type(turn.token.cancel(), StopAnswer)


def stop_with_a_wait_is_a_result(turn: turnctl.Turn) -> None:
    assert_type(turnctl.stop("chat", wait=1), StopResult)
    assert_type(turn.stop(wait="10s"), StopResult)


def misuse_of_the_loop_is_found(loop: AgentLoop, event: Event) -> None:
    AgentLoop(str, max_step=3)  # type: ignore[call-arg]
    AgentLoop(str, [7])  # type: ignore[list-item]
    AgentLoop(str, retry=3)  # type: ignore[arg-type]
    AgentLoop(str, ask="window")  # type: ignore[arg-type]
    AgentLoop(str, ledger="memory:")  # type: ignore[arg-type]
    loop.run("go", timout="5s")  # type: ignore[call-arg]
    loop.run(7)  # type: ignore[arg-type]
    loop.resume("checkpoint.json")  # type: ignore[arg-type]
    Tool(str, effekt="mail.send")  # type: ignore[call-arg]
    Reply(Message.user("so"), stop="done")  # type: ignore[arg-type]
    Result("c1", "so", "fine")  # type: ignore[arg-type]
    Message.assistant("so", [Result("c1")])  # type: ignore[list-item]
    Call("c1", "search", "{}")  # type: ignore[arg-type]
    if event.kind == "tool_finished":  # type: ignore[comparison-overlap]
        return
