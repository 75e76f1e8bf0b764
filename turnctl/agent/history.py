"""What a conversation keeps, and what of it the model is fed: the transcript is all of it, the feed its coherent part.

Rules, which every run goes through however it ended
  K1  Nothing leaves the transcript. What must not be fed is marked, and stays.
  K2  A coherent history stays as it is, the same objects: each call has one result, in order, before anything else.
  K3  A partial reply is not fed. A reply of text alone is coherent, also as the last one.
  K4  Results of calls that did finish are kept. A call that has none gets one that says what is known of it.
  K5  The first reply of a run none of whose calls was started is not fed: what remains is the prompt.
  K6  Only a run that the window could not hold is discarded, and its prompt with it.
  K7  The feed never has a call without a result, nor a result without its call.

Nothing blocks, and nothing is a checkpoint. The functions are pure. The methods of ``History`` that change it are for
one thread, that of the loop; others may read it at any time, and get tuples that do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnctl.agent.messages import messages_of
from turnctl.errors import BadArgument
from turnctl.records.messages import Call, Mark, Message, Result, ResultStatus

if TYPE_CHECKING:
    from turnctl.records.checkpoints import RunCheckpoint

__all__ = ["History", "closed", "compacted", "discard", "feed_of", "merged", "open_calls", "salvage"]

_MESSAGES = frozenset((Message,))


def feed_of(messages: Iterable[Message]) -> list[Message]:
    """Those of ``messages`` that the model gets to see."""
    return [message for message in messages if message.is_fed]


def open_calls(messages: Sequence[Message]) -> list[Call]:
    """The calls in what is fed of ``messages`` that have no result yet, in order."""
    found: list[Call] = []
    for reply, answers, _ in _steps(feed_of(messages)):
        if reply is not None:
            done = _answered(reply, answers)
            found.extend(call for call, result in zip(reply.calls, done, strict=True) if result is None)
    return found


def merged(messages: Iterable[Message]) -> list[Message]:
    """``messages`` as a wire wants them: adjacent ones of the user that are text alone are one, with a blank line.

    Results and images never merge, and what is kept is never merged: this is for the request alone.
    """
    found: list[Message] = []
    for message in messages:
        last = found[-1] if found else None
        if last is not None and _is_plain(last) and _is_plain(message):
            found[-1] = Message.user(f"{last.text}\n\n{message.text}")
        else:
            found.append(message)
    return found


def _is_plain(message: Message) -> bool:
    return message.role == "user" and message.is_text_only and bool(message.text.strip())


def salvage(
    messages: Sequence[Message],
    *,
    mark: Mark | None = None,
    statuses: Mapping[str, ResultStatus] | None = None,
    results: Iterable[Result] = (),
    open_as: ResultStatus = "cancelled_unknown",
) -> list[Message]:
    """The messages of one run, its prompt first, made coherent (K2 to K5); all of them, those not fed with a mark.

    ``results`` are those of finished calls that no message has yet. ``statuses`` says of a call by its id what is
    known of it where it has no result; one that is not named is ``open_as``. ``mark`` tells of the stop; its ``by``,
    ``cause`` and ``reason`` go onto each message that is marked or made here.
    """
    return _salvaged(messages, mark, statuses or {}, results, open_as, is_first=True)


def _salvaged(
    messages: Sequence[Message],
    mark: Mark | None,
    told: Mapping[str, ResultStatus],
    results: Iterable[Result],
    open_as: ResultStatus,
    *,
    is_first: bool,
) -> list[Message]:
    late: dict[str, list[Result]] = {}
    for result in results:
        late.setdefault(result.call_id, []).append(result)
    made = mark or Mark("closing")
    found: list[Message] = []
    for reply, answers, others in _steps(messages):
        if reply is None:
            found.extend(message.marked(_kind(made, "discarded")) for message in answers)
            found.extend(others)
            continue
        done = _answered(reply, answers)
        given = [
            late[call.id].pop(0) if result is None and late.get(call.id) else result
            for call, result in zip(reply.calls, done, strict=True)
        ]
        nothing_began = all(
            result is None and told.get(call.id, open_as) == "not_started"
            for call, result in zip(reply.calls, given, strict=True)
        )
        if is_first and reply.calls and nothing_began:
            found.append(reply.marked(_kind(made, "unanswered")))
            found.extend(message.marked(_kind(made, "discarded")) for message in answers)
        else:
            found.append(reply)
            found.extend(_closing(reply, answers, given, told, open_as, made))
        found.extend(others)
        is_first = False
    return found


def closed(
    messages: Sequence[Message],
    *,
    statuses: Mapping[str, ResultStatus] | None = None,
    open_as: ResultStatus = "cancelled_unknown",
) -> list[Message]:
    """What is fed of ``messages``, with each call closed (K4, K7); none of them is left out for being unanswered."""
    return feed_of(_salvaged(messages, None, statuses or {}, (), open_as, is_first=False))


def compacted(messages: Iterable[Any]) -> tuple[Message, ...]:
    """``messages`` as they may stand in the feed (K7): results whose calls were taken out are gone as well.

    Raises ``BadArgument`` if a call in them is open: its result was taken out, and would have to be made up.
    """
    found = messages_of(messages)
    if waiting := open_calls(found):
        names = ", ".join(f"{call.name} {call.id!r}" for call in waiting)
        raise BadArgument(f"a compacted history has a result for each call; there is none for {names}")
    return tuple(closed(found))


def discard(messages: Iterable[Message], mark: Mark | None = None) -> list[Message]:
    """The messages of a run that the window could not hold: kept, and none of them fed (K6)."""
    return [message.marked(_kind(mark or Mark("discarded"), "discarded")) for message in messages]


def _kind(mark: Mark, kind: Any) -> Mark:
    return Mark(kind, mark.cause, mark.by, mark.reason, mark.run_id)


def _steps(messages: Iterable[Message]) -> Iterable[tuple[Message | None, list[Message], list[Message]]]:
    """(reply, what the tools said to it, what else came before the next reply); the reply of the first may be None.

    What is not fed is neither a reply nor said to one.
    """
    reply: Message | None = None
    answers: list[Message] = []
    others: list[Message] = []
    for message in messages:
        if message.role == "assistant" and message.is_fed:
            if reply is not None or answers or others:
                yield reply, answers, others
            reply, answers, others = message, [], []
        elif message.role == "tool" and message.is_fed:
            answers.append(message)
        else:
            others.append(message)
    if reply is not None or answers or others:
        yield reply, answers, others


def _answered(reply: Message, answers: Iterable[Message]) -> list[Result | None]:
    """The first result of each call of ``reply``, or None. Two calls by one id take the results in turn."""
    given = [result for message in answers for result in message.results]
    found: list[Result | None] = []
    for call in reply.calls:
        result = next((one for one in given if one.call_id == call.id), None)
        if result is not None:
            given.remove(result)
        found.append(result)
    return found


def _closing(
    reply: Message,
    answers: Sequence[Message],
    given: Sequence[Result | None],
    told: Mapping[str, ResultStatus],
    open_as: ResultStatus,
    mark: Mark,
) -> list[Message]:
    """What is to stand after ``reply``: the same messages where they are right, else one, with the marks of all."""
    wanted = [
        Result(call.id, (), told.get(call.id, open_as), call.name) if result is None else result
        for call, result in zip(reply.calls, given, strict=True)
    ]
    said = [result for message in answers for result in message.results]
    if wanted == said:
        return list(answers)
    for result in wanted:
        if result in said:
            said.remove(result)
    closing = _kind(mark, "closing")
    found = []
    if wanted:
        marks = dict.fromkeys([*(one for message in answers for one in message.marks), closing])
        found.append(Message("tool", wanted, marks))
    if said:  # they answer nothing, or for a second time
        found.append(Message("tool", said, [_kind(mark, "discarded")]))
    return found


class History:
    """The messages of one conversation. The transcript keeps everything; the feed is what the model gets.

    ``begin`` marks where a run begins; ``salvage`` or ``discard`` end it. ``compact`` replaces what is fed so far and
    leaves the transcript alone.
    """

    def __init__(self, messages: Iterable[Any] = ()) -> None:
        #: both grow in place, and are replaced by others where they change in any other way
        self._transcript: list[Message] = messages_of(messages)
        self._fed: list[Message] = []
        #: what stands in the feed for the transcript before the floor
        self._base: tuple[Message, ...] = ()
        self._floor = 0
        self._start = len(self._transcript)
        self._before: tuple[tuple[Message, ...], int] = (self._base, self._floor)
        #: how much of the transcript is known to be coherent
        self._looked_at = 0
        self._feed_anew()

    @property
    def transcript(self) -> tuple[Message, ...]:
        """All messages that there ever were, in order."""
        return tuple(self._transcript)

    @property
    def feed(self) -> tuple[Message, ...]:
        """What the model gets next: coherent unless a step is under way."""
        return tuple(self._fed)

    @property
    def of_run(self) -> tuple[Message, ...]:
        """The messages since the last ``begin``, those that are not fed too."""
        return tuple(self._transcript[self._start :])

    def __len__(self) -> int:
        return len(self._transcript)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._transcript)} messages, {len(self._fed)} of them fed>"

    def begin(self) -> None:
        """A run begins: what is added from here on is its own. A call that is open before it has an unknown outcome."""
        since = max(self._floor, self._looked_at)
        before = feed_of(self._transcript[since:])
        if closed(before) != before:  # what the host had kept, perhaps of a program that was killed
            made = _salvaged(self._transcript[since:], None, {}, (), "unknown", is_first=False)
            self._transcript = [*self._transcript[:since], *made]
            self._feed_anew()
        self._looked_at = len(self._transcript)
        self._start = len(self._transcript)
        self._before = (self._base, self._floor)

    def add(self, *messages: Any) -> None:
        """Keep ``messages`` at the end."""
        added = messages if _MESSAGES.issuperset(map(type, messages)) else messages_of(messages)
        self._transcript.extend(added)
        self._fed.extend([one for one in added if one.is_fed])

    def compact(self, messages: Iterable[Any]) -> None:
        """Feed ``messages`` in place of all that is fed now. Raises ``BadArgument`` if a call in them is open.

        Results that answer nothing in them are left out. The transcript stays. A run that ends by ``salvage``
        afterwards keeps this; one that is discarded does not.
        """
        self._base, self._floor = compacted(messages), len(self._transcript)
        self._feed_anew()

    def salvage(
        self,
        *,
        mark: Mark | None = None,
        statuses: Mapping[str, ResultStatus] | None = None,
        results: Iterable[Result] = (),
        open_as: ResultStatus = "cancelled_unknown",
    ) -> None:
        """Make the run's messages coherent, as the function does; a coherent run is not touched."""
        start = max(self._start, self._floor)
        made = _salvaged(
            self._transcript[start:],
            mark,
            statuses or {},
            results,
            open_as,
            is_first=start == self._start,  # what was compacted within the run had its replies
        )
        self._transcript = [*self._transcript[:start], *made]
        self._feed_anew()

    def discard(self, mark: Mark | None = None) -> None:
        """The window could not hold the run: none of its messages is fed, and a compaction within it is undone."""
        self._transcript = [*self._transcript[: self._start], *discard(self.of_run, mark)]
        self._base, self._floor = self._before
        self._feed_anew()

    def _feed_anew(self) -> None:
        self._fed = [*self._base, *feed_of(self._transcript[self._floor :])]

    def _kept(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        base_before, floor_before = self._before
        kept = {"transcript": self.transcript, "base": self._base, "floor": self._floor, "start": self._start}
        return {**kept, "base_before": base_before, "floor_before": floor_before}

    def _restore(self, kept: RunCheckpoint) -> None:
        """Be as it was when ``kept`` was taken."""
        self._transcript, self._start, self._looked_at = [*kept.transcript], kept.start, 0
        self._base, self._floor = kept.base, kept.floor
        self._before = (kept.base_before, kept.floor_before)
        self._feed_anew()

    # -- as plain values --------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold; ``from_dict`` takes it back."""
        return {
            "messages": [message.as_dict() for message in self._transcript],
            "base": [message.as_dict() for message in self._base],
            "floor": self._floor,
            "start": self._start,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> History:
        """The history that ``as_dict`` made this of; raises ``BadArgument`` for anything else."""
        try:
            found = cls(Message.from_dict(one) for one in given["messages"])
            found._base = tuple(Message.from_dict(one) for one in given["base"])
            found._floor, found._start = int(given["floor"]), int(given["start"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadArgument(f"this is no history as as_dict makes it ({error})") from error
        if not (0 <= found._floor <= len(found) and 0 <= found._start <= len(found)):
            raise BadArgument(f"this history has {len(found)} messages and begins at {found._floor}, {found._start}")
        found._before = (found._base, found._floor)
        found._feed_anew()
        return found
