"""A model behind a client of a provider: what is the same whatever shape it speaks.

The client is the host's own: with one of ``turnctl.integrations`` below it a stop closes the connection. Each method
blocks for the model, on the caller's thread, and is a checkpoint where the client is. A model is not changed by use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from turnctl.agent.counting import priced
from turnctl.agent.wires.reading import closing
from turnctl.errors import BadArgument
from turnctl.records.messages import Mark, Message
from turnctl.records.replies import Delta, Reply, ReplyStop, Usage

__all__ = ["ClientModel", "Reading", "marked_if_cut"]


class Reading(Protocol):
    """One stream: what each piece of it says, and at its end the reply."""

    def read(self, piece: Any) -> Iterator[Delta]: ...

    def reply(self) -> Reply: ...


class ClientModel:
    """A model over ``client``: an object that has the function ``member``, or a function like that.

    Each wire says how a request is worded, what a whole answer means, and how a stream is read.
    """

    #: where its client has the function, whose client that is, and what the loop alone says in a request
    _member = ""
    _whose = ""
    _ours: tuple[str, ...] = ()

    def __init__(
        self, client: Any, model: str, price: Callable[[Usage], float] | None, options: Mapping[str, Any]
    ) -> None:
        create: Any = client
        for name in self._member.split("."):
            create = getattr(create, name, None)
        if create is None:
            create = client
        if not callable(create):
            raise BadArgument(f"{self._whose} client has {self._member}, or is a function like it; not {client!r}")
        if taken := [name for name in options if name in self._ours]:
            raise BadArgument(
                f"{', '.join(taken)} of a request comes from the loop; leave it out of the model's options"
            )
        self._create: Callable[..., Any] = create
        self.model = model
        self._price = price
        self._options = dict(options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}>"

    def request(self, messages: Iterable[Message], tools: Iterable[Any] = ()) -> dict[str, Any]:
        """What is sent, without sending it. Pure."""
        raise NotImplementedError

    def _streamed(self, request: dict[str, Any]) -> dict[str, Any]:
        """The same, so that the reply comes as it is written."""
        return {**request, "stream": True}

    def _whole(self, answer: Any) -> Reply:
        raise NotImplementedError

    def _reading(self) -> Reading:
        raise NotImplementedError

    def complete(self, messages: Iterable[Message], tools: Iterable[Any] = ()) -> Reply:
        """One whole reply."""
        return priced(self._whole(self._create(**self.request(messages, tools))), self._price)

    def stream(self, messages: Iterable[Message], tools: Iterable[Any] = ()) -> Iterator[Delta | Reply]:
        """The reply as it comes; at last the whole of it. Nothing is sent before the first item is asked for.

        A stream that ends without a reason gives a reply whose ``stop`` is "cut" and whose message is marked so.
        """
        reading = self._reading()
        with closing(self._create(**self._streamed(self.request(messages, tools)))) as source:
            for piece in source:
                yield from reading.read(piece)
        yield priced(reading.reply(), self._price)


def marked_if_cut(message: Message, stop: ReplyStop) -> Message:
    """What came of a reply, marked as less than the whole where it is."""
    return message.marked(Mark("partial", "cut")) if stop == "cut" else message
