"""The retries of urllib3, and so of requests: a policy whose sleeps end with the stop, and which asks before each try.

In a pool that is stoppable by itself the exchange is asked, elsewhere the current turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnctl.errors import CancelledError
from turnctl.integrations.exchanges import served
from turnctl.integrations.ontop import is_of_urllib3, on_top
from turnctl.integrations.retries.stops import look
from turnctl.integrations.wires import apart
from turnctl.tokens.current import current_token
from turnctl.waiting.wait import sleep

if TYPE_CHECKING:
    from urllib3.util import Retry

__all__ = ["stoppable_retry"]

_SLEEPS = ("sleep", "sleep_for_retry", "_sleep_backoff")


class _Retry:
    """What stands on top of a class of ``urllib3.util.Retry``.

    A class of somebody else that sleeps in a way of its own does so on a thread that a stop leaves behind.
    """

    def increment(self, *args: Any, **options: Any) -> Any:
        response, error = options.get("response"), options.get("error")
        try:
            _look(error)
        except CancelledError:
            if response is not None:
                response.close()  # nobody will read it, and nobody else may have its connection
            raise
        return super().increment(*args, **options)  # type: ignore[misc]

    def sleep(self, response: Any = None) -> None:
        theirs: Any = super()
        exchange = served.get()
        if exchange is None or is_of_urllib3(_Retry, type(self), *_SLEEPS):
            theirs.sleep(response)  # by those below
        else:
            exchange.stage = "waiting to try again"
            apart(exchange, f"sleep of {type(self).__name__}", theirs.sleep, response, kind="sleep")

    def sleep_for_retry(self, response: Any = None) -> bool:
        me: Any = self
        theirs: Any = super()
        if not is_of_urllib3(_Retry, type(self), *_SLEEPS):
            return bool(theirs.sleep_for_retry(response))
        seconds = me.get_retry_after(response)
        if not seconds:
            return False
        _sleep(seconds)
        return True

    def _sleep_backoff(self) -> None:
        me: Any = self
        theirs: Any = super()
        if not is_of_urllib3(_Retry, type(self), *_SLEEPS):
            theirs._sleep_backoff()
            return
        seconds = me.get_backoff_time()
        if seconds > 0:
            _sleep(seconds)


def _look(error: BaseException | None) -> None:
    exchange = served.get()
    if exchange is None:
        look(error)
        return
    if error is not None:
        exchange.look_back()  # it may have failed of the stop
        exchange.over(error)
    exchange.check()


def _sleep(seconds: float) -> None:
    exchange = served.get()
    if exchange is None:
        sleep(current_token(), seconds)
        return
    exchange.stage = "waiting to try again"
    sleep(exchange.obeyed(), seconds)


def stoppable_retry(retries: Retry) -> Retry:
    """The same policy, whose sleeps a stop ends, and which never tries again after one; ``retries`` stays as it is."""
    if isinstance(retries, _Retry):
        return retries
    made: Retry = object.__new__(on_top(_Retry, type(retries)))
    made.__dict__.update(retries.__dict__)  # as copy.copy() does it, in a tenth of the time
    return made
