"""What a run leaves behind: the coherent part is fed, all of it is kept, and each call has its word."""

from __future__ import annotations

import json
import random

import pytest

from turnctl.agent.history import History, closed, discard, feed_of, merged, open_calls, salvage
from turnctl.agent.messages import Call, Image, Mark, Message, Result
from turnctl.errors import BadArgument

PROMPT = Message.user("tidy up")
DONE = Message.assistant("done")
STOP = Mark("closing", "user", "ann", "enough", "r1")


def asks(*ids: str) -> Message:
    return Message.assistant("", [Call(one, "do", {"n": one}) for one in ids])


def says(*ids: str) -> Message:
    return Message.tool(*(Result(one, f"did {one}") for one in ids))


def words(messages: list[Message]) -> list[str]:
    """What the tools are shown to have said, a letter and a status each."""
    return [f"{result.call_id} {result.status}" for message in messages for result in message.results]


@pytest.mark.parametrize(
    "coherent",
    [
        [],
        [PROMPT],
        [PROMPT, DONE],
        [PROMPT, asks("a"), says("a")],
        [PROMPT, asks("a", "b"), says("a"), says("b"), DONE],
        [PROMPT, asks("a", "b"), says("a", "b"), asks("c"), says("c"), DONE],
        [PROMPT, asks("a"), says("a"), Message.assistant("and now?")],
    ],
    ids=["empty", "prompt", "reply", "answered", "apart", "long", "text last"],
)
def test_coherent_history_stays_whole(coherent: list[Message]) -> None:
    """Salvage units: what is coherent stays, the same objects in the same order, and empty stays empty."""
    kept = salvage(coherent, mark=STOP)

    assert coherent == kept
    assert all(one is other for one, other in zip(coherent, kept, strict=True))
    assert coherent == feed_of(kept)


def test_trailing_call_is_closed() -> None:
    """A trailing unanswered call of a later reply is closed with what is known of it."""
    run = [PROMPT, asks("a"), says("a"), asks("b")]

    assert ["a completed", "b cancelled_unknown"] == words(feed_of(salvage(run, mark=STOP)))
    assert ["a completed", "b not_started"] == words(feed_of(salvage(run, mark=STOP, open_as="not_started")))
    assert ["a completed", "b unknown"] == words(feed_of(salvage(run, open_as="unknown")))


def test_second_of_three_is_stopped() -> None:
    """Stop while tool 2 of 3 runs: result 1 is kept, 2 is of unknown outcome, 3 was stopped before it started."""
    kept = feed_of(
        salvage(
            [PROMPT, asks("a", "b", "c")],
            mark=STOP,
            results=[Result("a", "did a")],
            statuses={"b": "cancelled_unknown", "c": "not_started"},
        )
    )
    (told,) = [one for one in kept if one.role == "tool"]

    assert ["did a", "cancelled, outcome unknown", "stopped before it started"] == [
        one.text.partition(":")[0] for one in told.results
    ]
    assert ("user", "ann", "enough", "r1") == (
        told.marks[0].cause,
        told.marks[0].by,
        told.marks[0].reason,
        told.marks[0].run_id,
    )
    assert told.has("closing")


def test_results_of_siblings_are_kept_in_order() -> None:
    """Of a parallel wave those that finished are kept, whatever order they finished in."""
    kept = salvage([PROMPT, asks("a", "b", "c"), says("c"), says("a")], mark=STOP)

    assert ["a completed", "b cancelled_unknown", "c completed"] == words(kept)
    assert [] == open_calls(kept)


def test_unanswered_first_reply_leaves_the_prompt() -> None:
    """The first reply, none of whose calls was begun, is kept and not fed: the model sees the prompt alone."""
    kept = salvage([PROMPT, asks("a", "b")], mark=STOP, open_as="not_started")

    assert [PROMPT] == feed_of(kept)
    assert ["user", "assistant"] == [one.role for one in kept]
    assert kept[1].has("unanswered")


def test_first_reply_with_a_begun_call_is_fed() -> None:
    """If any call of the first reply was begun the model learns of it: no effect is hidden."""
    kept = salvage([PROMPT, asks("a", "b")], statuses={"a": "cancelled_unknown", "b": "not_started"})

    assert ["a cancelled_unknown", "b not_started"] == words(feed_of(kept))


def test_partial_reply_is_kept_and_not_fed() -> None:
    """Stop in a stream: the prompt survives, the partial reply is in the transcript, marked, and not in the feed."""
    half = Message("assistant", "hal", [Mark("partial", "user", "ann")])
    kept = salvage([PROMPT, half], mark=STOP)

    assert [PROMPT, half] == kept
    assert [PROMPT] == feed_of(kept)


def test_partial_reply_with_a_call_is_not_answered() -> None:
    """A call within a reply that was cut was never made, so no result is made up for it."""
    half = Message("assistant", [Call("a", "do")], [Mark("partial")])

    assert [PROMPT, half] == salvage([PROMPT, half], mark=STOP)
    assert [] == open_calls([PROMPT, half])


def test_nothing_leaves_the_transcript() -> None:
    """A result that answers nothing, or a second time, is kept and not fed."""
    stray = [says("x"), PROMPT, asks("a"), Message.tool(Result("a", "one"), Result("a", "two"), Result("z", "?")), DONE]
    kept = salvage(stray)
    everything = {result for message in kept for result in message.results}

    assert ["a completed"] == words(feed_of(kept))
    assert {Result("x", "did x"), Result("a", "one"), Result("a", "two"), Result("z", "?")} == everything
    assert DONE == kept[-1]


def test_result_in_the_wrong_place_moves_to_its_call() -> None:
    """A result that something came before stands directly after its reply."""
    late = [PROMPT, asks("a"), Message.user("and?"), says("a"), DONE]

    assert [PROMPT, asks("a"), says("a"), Message.user("and?"), DONE] == salvage(late)


def test_only_the_window_discards() -> None:
    """A run that the window could not hold leaves the feed, prompt and all; the transcript keeps it, marked."""
    kept = discard([PROMPT, asks("a"), says("a")], Mark("closing", "user"))

    assert [] == feed_of(kept)
    assert ["discarded"] * 3 == [one.marks[-1].kind for one in kept]
    assert kept == discard(kept, Mark("closing", "user"))


def test_users_texts_merge_and_nothing_else() -> None:
    """Adjacent text-only messages of the user are one on the wire; results, images and other roles never merge."""
    image = Message.user(["see", Image(url="http://x/1")])
    long = [
        Message.user("a"),
        Message.user(["b", "c"]),
        image,
        Message.user("d"),
        asks("x"),
        says("x"),
        Message.user("e"),
    ]
    wire = merged(long)

    assert ["a\n\nbc", "see", "d", "", "", "e"] == [one.text for one in wire]
    assert image is wire[1]
    assert merged(wire) == wire
    assert 7 == len(long)
    assert [says("x"), says("y")] == merged([says("x"), says("y")])


# -- the keeper ---------------------------------------------------------------------------------------------------


def test_three_steps_then_a_stop() -> None:
    """Three finished steps, then a stop: the next request contains them."""
    history = History()
    history.begin()
    history.add(PROMPT)
    for one in "abc":
        history.add(asks(one), says(one))
    history.add(asks("d"))
    history.salvage(mark=STOP)
    history.begin()
    history.add("go on")

    assert ["a completed", "b completed", "c completed", "d cancelled_unknown"] == words(list(history.feed))
    assert "go on" == history.feed[-1].text
    assert 1 == len(history.of_run)


def test_salvaged_prompt_and_new_prompt_are_one_on_the_wire() -> None:
    """The prompt of a run stopped at once and the next one are two in the history and one message on the wire."""
    history = History()
    for text in ("first", "second"):
        history.begin()
        history.add(text)
        history.salvage(mark=STOP)

    assert 2 == len(history.feed)
    assert ["first\n\nsecond"] == [one.text for one in merged(history.feed)]


def test_compacted_history_is_kept_by_a_stop() -> None:
    """A run stopped after a successful compaction keeps the compacted history; the transcript has everything."""
    history = History(["old", DONE])
    history.begin()
    history.add(PROMPT, asks("a"), says("a"))
    history.compact([Message("user", "in short", [Mark("compacted")])])
    history.add(asks("b"))
    history.salvage(mark=STOP, open_as="not_started")

    assert ["in short"] == [one.text for one in history.feed if one.role == "user"]
    assert ["b not_started"] == words(list(history.feed))
    assert ["a completed", "b not_started"] == words(list(history.transcript))


def test_discarded_run_takes_its_compaction_with_it() -> None:
    """What was fed before the run is fed again after the window could not hold it."""
    history = History(["old", DONE])
    before = history.feed
    history.begin()
    history.add(PROMPT)
    history.compact(["in short"])
    history.add(asks("a"), says("a"))
    history.discard()

    assert before == history.feed
    assert 5 == len(history)


def test_half_made_compaction_is_refused() -> None:
    """A compactor that cut a call from its result is told so, and nothing is changed."""
    history = History([PROMPT, asks("a"), says("a")])
    before = history.feed
    with pytest.raises(BadArgument, match="do 'a'"):
        history.compact([PROMPT, asks("a")])

    assert before == history.feed


def test_history_survives_being_stored() -> None:
    """Through JSON and back it feeds the same, and goes on with the same run."""
    history = History(["old", DONE])
    history.begin()
    history.add(PROMPT)
    history.compact(["in short"])
    history.add(asks("a"))
    again = History.from_dict(json.loads(json.dumps(history.as_dict())))
    again.salvage(mark=STOP)
    history.salvage(mark=STOP)

    assert history.transcript == again.transcript
    assert history.feed == again.feed
    for wrong in ({}, {**history.as_dict(), "floor": 99}, {**history.as_dict(), "messages": [1]}):
        with pytest.raises(BadArgument, match="this"):
            History.from_dict(wrong)


def test_any_history_comes_out_coherent() -> None:
    """1,000 random runs: no call is open, no result an orphan, nothing is lost, and a second pass changes nothing."""
    chance = random.Random(8)
    for _ in range(1000):
        run = [_random_message(chance) for _ in range(chance.randrange(9))]
        kept = salvage(run, mark=STOP, open_as=chance.choice(["not_started", "cancelled_unknown", "unknown"]))
        fed = feed_of(kept)
        for n, message in enumerate(fed):
            following: list[str] = []
            for one in fed[n + 1 :]:
                if one.role != "tool":
                    break
                following += [result.call_id for result in one.results]
            if message.role == "assistant":
                assert [call.id for call in message.calls] == following, run
            elif message.role != "tool":
                assert [] == following, run
        assert not fed or fed[0].role != "tool"
        assert kept == salvage(kept, mark=STOP)
        assert fed == closed(kept)
        lost = [result for message in run for result in message.results]
        for message in kept:
            lost = [result for result in lost if result not in message.results]
        assert [] == lost


def _random_message(chance: random.Random) -> Message:
    ids = [chance.choice("abcd") for _ in range(chance.randrange(4))]
    kind = chance.randrange(6)
    if kind < 2:
        return asks(*ids)
    if kind < 4:
        return Message.tool(*(Result(one, f"{one}{chance.randrange(3)}") for one in ids))
    if kind == 4:
        return Message("assistant", "half", [Mark("partial")] * chance.randrange(2))
    return PROMPT
