"""Transports and clients of httpx that a stop ends, and of its renamed copy; each has a file of its own for its names.

A transport of ours says that what it passes on is to be served; what does it is below, in the pool of connections
(``cores``). One that leads to no such pool, or whose pool is not what we know, is refused, unless the caller says what
to do instead: ``fallback="call"`` has each request run by ``turnctl.call``, left behind at a stop and named;
``fallback="check"`` only looks at the stop before and after, and the report says so.

May block: as the transport that is wrapped does.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Literal

from turnctl.errors import BadArgument, ClientChanged
from turnctl.integrations.cores import making
from turnctl.integrations.cores.pool import Body, Wish, wanted
from turnctl.integrations.exchanges import begin, name_of_request
from turnctl.tokens import registry
from turnctl.tokens.current import check, current_token
from turnctl.waiting.call import call

__all__ = ["Fallback", "Passing", "Wrapping", "mode_for", "stoppable", "wrap_in_place"]

Fallback = Literal["call", "check"]
Mode = Literal["serve", "call", "check"]

_FALLBACKS = (None, "call", "check")
#: these answer on the caller's own thread, by code of the host that can look at the stop itself
_IN_PROCESS = ("MockTransport", "WSGITransport")
_DEPTH = 3  # transports around transports around a pool


class _Called:
    """The body of a response that ``turnctl.call`` reads, part by part."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        parts = iter(self._stream)
        end = object()
        while (part := _on_a_thread(next, parts, end)) is not end:
            yield part

    def close(self) -> None:
        self._stream.close()


def _on_a_thread(fn: Any, *args: Any) -> Any:
    token = current_token()
    turn = None if token is None or token.retired else registry.enclosing(token)
    check()
    return call(turn, fn, args, {})


class Wrapping:
    """What the transports of both names have in common; ``wrapped`` is the one that does the work."""

    #: the name of the client's package
    family = ""

    wrapped: Any

    def __init__(self, wrapped: Any, *, fallback: Fallback | None = None) -> None:
        self.wrapped = wrapped.wrapped if isinstance(wrapped, Wrapping) else wrapped
        self._mode: Mode = mode_for(self.family, self.wrapped, fallback)

    def handle_request(self, request: Any) -> Any:
        """Pass ``request`` on; a checkpoint in all that it waits for."""
        if self._mode == "serve":
            return self._serve(request)
        if self._mode == "call":
            return self._call(request)
        return self._check(request)

    def _serve(self, request: Any) -> Any:
        wish = Wish()
        mark = wanted.set(wish)
        try:
            response = self.wrapped.handle_request(request)
        finally:
            wanted.reset(mark)
        if not wish.is_heard:
            self._was_not_heard(request, response)
        return response

    def _was_not_heard(self, request: Any, response: Any) -> None:
        token = current_token()
        turn = registry.enclosing(token)
        if turn is not None and not turn.token.retired:
            kind = type(self.wrapped).__name__
            turn.notes.append(f"{_name_of(request)}: {kind} answered by itself; the stop was looked at when it had")
        try:
            check()
        except BaseException:
            response.close()
            raise

    def _call(self, request: Any) -> Any:
        is_wanted = [True]

        def handle_request() -> Any:
            response = self.wrapped.handle_request(request)
            if not is_wanted:
                response.close()
            return response

        handle_request.__qualname__ = f"{_name_of(request)} by {type(self.wrapped).__name__}"
        try:
            response = _on_a_thread(handle_request)
        except BaseException:
            is_wanted.clear()
            raise
        response.stream = self._body(_Called(response.stream))
        return response

    def _check(self, request: Any) -> Any:
        exchange = begin(_name_of(request))
        if exchange is None:
            return self.wrapped.handle_request(request)
        exchange.stage = f"in {type(self.wrapped).__name__}, which nothing interrupts"
        exchange.sent = exchange.received = None
        try:
            response = self.wrapped.handle_request(request)
            exchange.check()
        except BaseException as error:
            exchange.over(error)
            raise
        if response.is_closed:  # it came with all that it has
            exchange.over()
        else:
            response.stream = self._body(Body(response.stream, exchange))
        return response

    def _body(self, inner: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Close the transport that is wrapped."""
        self.wrapped.close()

    def __enter__(self) -> Any:
        self.wrapped.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self.wrapped.__exit__(*args)

    def __getattr__(self, name: str) -> Any:
        if name == "wrapped":
            raise AttributeError(name)  # it is not made yet
        return getattr(self.wrapped, name)

    def __repr__(self) -> str:
        return f"<turnctl Transport around {self.wrapped!r}>"


class Passing:
    """A body of one kind as a body of another: the clients ask for their own class."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._inner)

    def close(self) -> None:
        self._inner.close()


def _name_of(request: Any) -> str:
    return name_of_request(request.method, str(request.url))


def mode_for(family: str, wrapped: Any, fallback: Fallback | None) -> Mode:
    """How requests of ``wrapped`` are to be run. Raises what tells why they cannot be stopped, if that is refused."""
    if fallback not in _FALLBACKS:
        raise BadArgument(f'unknown fallback {fallback!r}; use "call", "check" or None')
    if isinstance(wrapped, type) or not callable(getattr(wrapped, "handle_request", None)):
        raise BadArgument(f"Transport() goes around a transport of {family}, not {wrapped!r}")
    if type(wrapped).__name__ in _IN_PROCESS and type(wrapped).__module__.partition(".")[0] == family:
        return "check"
    core = making.FAMILIES[family]
    try:
        if _leads_to_pool(wrapped, making.library(core).face.ConnectionPool, _DEPTH):
            making.ensure(core)
            return "serve"
    except ClientChanged:
        if fallback is None:
            raise
        return fallback
    if fallback is None:
        raise BadArgument(
            f"{type(wrapped).__name__} has no pool of {core} inside, so nothing could interrupt its requests; give "
            'fallback="call" to have them run by turnctl.call() and left behind at a stop, or fallback="check" to '
            "have the stop looked at before and after each"
        )
    return fallback


def _leads_to_pool(thing: Any, pool: type, depth: int) -> bool:
    if isinstance(thing, pool):
        return True
    if depth == 0 or not hasattr(thing, "__dict__"):
        return False
    inner = [one for one in vars(thing).values() if hasattr(one, "handle_request")]
    return any(_leads_to_pool(one, pool, depth - 1) for one in inner)


def wrap_in_place(client: Any, transport: type[Wrapping], fallback: Fallback | None) -> None:
    """Have each transport of ``client``, those for proxies and mounts too, be one of ours; those that are stay."""
    try:
        main, mounts = client._transport, client._mounts
    except AttributeError as error:
        raise ClientChanged(
            f"{type(client).__name__} of {transport.family} has no _transport and _mounts to wrap; give it "
            f"transport=turnctl.integrations.{transport.family}.Transport(...) instead",
            client=transport.family,
            missing=(f"{transport.family}.Client: {error}",),
        ) from error

    def wrapped(one: Any) -> Any:
        return one if one is None or isinstance(one, Wrapping) else transport(one, fallback=fallback)

    new_mounts = {pattern: wrapped(one) for pattern, one in mounts.items()}
    client._transport = wrapped(main)
    client._mounts = new_mounts


def stoppable(client: Any, *, fallback: Fallback | None = None) -> Any:
    """Have each request of ``client`` end with a stop of its turn; returns the same client.

    ``client`` is an ``httpx.Client``, one of httpx2, or a client of OpenAI or Anthropic, which have one of these
    inside, and whose pauses between two attempts then end as well (``retries.stoppable_client``); also one that is in
    use: what is under way goes on as it was begun. Raises ``BadArgument`` for a client
    that is asynchronous or of another kind, and ``ClientChanged`` for one whose internals are not what we know,
    unless ``fallback`` says how to run its requests then. Never blocks, not a checkpoint.
    """
    inner = client if _family_of(client) else getattr(client, "_client", None)
    family = _family_of(inner)
    if family is None:
        what = f"the class {client.__qualname__}" if isinstance(client, type) else type(client).__qualname__
        is_async = "Async" in what or (inner is not None and "Async" in type(inner).__qualname__)
        hint = "; an asynchronous one is stopped by turn.bridge_asyncio()" if is_async else ""
        raise BadArgument(
            f"stoppable() takes a Client of httpx or httpx2, or a client of OpenAI or Anthropic, not {what}{hint}"
        )
    module = importlib.import_module(f"turnctl.integrations.{family}")
    if client is not inner:
        _end_retries_of(client, fallback)
    wrap_in_place(inner, module.Transport, fallback)
    return client


def _end_retries_of(client: Any, fallback: Fallback | None) -> None:
    """Have the pauses between the attempts of an SDK's client end as well; others have none that we know of."""
    from turnctl.integrations.retries import of_sdks

    if of_sdks.has_retries(client):
        try:
            of_sdks.stoppable_client(client)
        except ClientChanged:
            if fallback is None:
                raise


def _family_of(client: Any) -> str | None:
    """Which package's synchronous ``Client`` it is."""
    for base in type(client).__mro__:
        root = base.__module__.partition(".")[0]
        if base.__name__ == "Client" and root in making.FAMILIES:
            return root
    return None
