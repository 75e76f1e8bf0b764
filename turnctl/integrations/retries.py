"""Retries of clients that end with the stop: no further attempt, and no sleep that goes on."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from turnctl.integrations.exchanges import served
from turnctl.integrations.ontop import put_on_top
from turnctl.waiting.wait import sleep

if TYPE_CHECKING:
    from urllib3.util import Retry

__all__ = ["stoppable_retry"]


class _Retry:
    """What stands on top of a class of ``urllib3.util.Retry``."""

    def increment(self, *args: Any, **options: Any) -> Any:
        exchange = served.get()
        error = options.get("error")
        if exchange is not None:
            if error is not None:
                exchange.look_back()  # it may have failed of the stop
                exchange.over(error)
            exchange.check()
        return super().increment(*args, **options)  # type: ignore[misc]

    def sleep_for_retry(self, response: Any = None) -> bool:
        me: Any = self
        seconds = me.get_retry_after(response) if response is not None else None
        if not seconds:
            return False
        _sleep(seconds)
        return True

    def _sleep_backoff(self) -> None:
        me: Any = self
        seconds = me.get_backoff_time()
        if seconds > 0:
            _sleep(seconds)


def _sleep(seconds: float) -> None:
    from turnctl.tokens.current import current_token

    exchange = served.get()
    sleep(current_token() if exchange is None else exchange.obeyed(), seconds)


def stoppable_retry(retries: Retry) -> Retry:
    """The same policy, whose sleeps a stop ends, and which never tries again after one; ``retries`` stays as it is."""
    if isinstance(retries, _Retry):
        return retries
    made = copy.copy(retries)
    put_on_top(_Retry, made)
    return made
