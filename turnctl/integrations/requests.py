"""requests, made stoppable: sessions and adapters whose requests a stop of the current turn ends at once.

What does it is in ``integrations.urllib3``; here it is put into the adapters of a session. See ``docs/requests.md``.

Invariants
  O1  An adapter has stoppable managers from the moment it is made, copied, unpickled or given a new proxy.
  O2  With ``fallback="call"`` the requests of an adapter that cannot be made stoppable run on a thread of their own,
      body included, which a stop leaves behind and the report names. A streamed response is refused there: reading it
      could not be stopped.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import requests
from requests.adapters import HTTPAdapter

from turnctl.errors import BadArgument, ClientChanged
from turnctl.integrations import urllib3
from turnctl.integrations.exchanges import name_of_request
from turnctl.integrations.ontop import put_on_top
from turnctl.integrations.urllib3 import PoolManager, changes
from turnctl.tokens import registry
from turnctl.tokens.current import current_token
from turnctl.waiting.call import call

__all__ = ["Adapter", "PoolManager", "Session", "changes", "stoppable"]

Fallback = Literal["call"]
S = TypeVar("S", bound=requests.Session)


class _Stoppable:
    """What stands on top of the class of an adapter."""

    _is_left_behind = False

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)  # type: ignore[misc]
        if not self._is_left_behind:
            adapter: Any = self
            urllib3.stoppable(adapter.poolmanager)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)  # type: ignore[misc]
        return manager if self._is_left_behind else urllib3.stoppable(manager)

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        # all as it was given: what stands in for it in somebody's tests may take nothing but names
        if not self._is_left_behind:
            return super().send(request, *args, **options)  # type: ignore[misc]
        token = current_token()
        turn = None if token is None or token.retired else registry.enclosing(token)
        if turn is None:
            return super().send(request, *args, **options)  # type: ignore[misc]
        stream = args[0] if args else options.pop("stream", False)
        name = name_of_request(request.method, request.url)
        if stream:
            raise ClientChanged(
                f"{name} is not sent: a streamed response of {type(self).__name__} could not be stopped; leave "
                "stream=True out, or use a version that docs/requests.md names",
                client="requests",
            )
        send = super().send  # type: ignore[misc]

        def send_whole() -> Any:
            response = send(request, False, *args[1:], **options)
            response.content  # noqa: B018 - it is read here and not by the caller, who must not block
            return response

        send_whole.__qualname__ = f"{name} by {type(self).__name__}"
        return call(turn, send_whole, (), {})


class Adapter(_Stoppable, HTTPAdapter):
    """An ``HTTPAdapter`` whose requests a stop of the current turn ends at once. Takes the same arguments, and
    ``fallback``: see ``stoppable``."""

    def __init__(self, *args: Any, fallback: Fallback | None = None, **options: Any) -> None:
        self._is_left_behind = _must_leave_behind(fallback)
        super().__init__(*args, **options)


class Session(requests.Session):
    """A ``requests.Session`` whose requests a stop of the current turn ends at once.

    ``fallback``: see ``stoppable``.
    """

    def __init__(self, *, fallback: Fallback | None = None) -> None:
        super().__init__()
        self.mount("https://", Adapter(fallback=fallback))
        self.mount("http://", Adapter(fallback=fallback))


def stoppable(session: S, *, fallback: Fallback | None = None) -> S:
    """Make the adapters of ``session`` stoppable, with the connections they have; returns the session.

    Adapters of classes of your own keep what these do; what is mounted later is yours to make stoppable. Requests that
    are under way are not reached. May be called twice.

    Raises ``ClientChanged`` where the urllib3 in use does not work as this needs it, and ``BadArgument`` for an adapter
    that is not built on urllib3. With ``fallback="call"`` the requests of such a one run through ``turnctl.call``: a
    stop leaves their thread behind, and the report names it. Never blocks for long, not a checkpoint.
    """
    leave_behind = _must_leave_behind(fallback)
    for prefix, adapter in session.adapters.items():
        if fallback is None and not isinstance(adapter, HTTPAdapter):
            raise BadArgument(
                f"the adapter for {prefix} is {adapter!r}, which is no HTTPAdapter and cannot be made stoppable; mount "
                'another one, or give fallback="call"'
            )
    for adapter in session.adapters.values():
        _make_stoppable(adapter, leave_behind or not isinstance(adapter, HTTPAdapter))
    return session


def _make_stoppable(adapter: Any, leave_behind: bool) -> None:
    if type(adapter) is HTTPAdapter:
        adapter.__class__ = Adapter  # which can be pickled
    put_on_top(_Stoppable, adapter)
    adapter._is_left_behind = leave_behind
    if not leave_behind:
        for manager in (adapter.poolmanager, *adapter.proxy_manager.values()):
            urllib3.stoppable(manager)


def _must_leave_behind(fallback: str | None) -> bool:
    if fallback not in (None, "call"):
        raise BadArgument(f'fallback is "call" or None, not {fallback!r}')
    try:
        urllib3.refuse_if_changed()
    except ClientChanged:
        if fallback is None:
            raise
        return True
    return False
