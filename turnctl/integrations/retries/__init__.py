"""Retries of clients that end with the stop: no further attempt, and no sleep that goes on.

One function for each kind of retry, each loaded where it is used; none of them imports the client that it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.integrations.retries.of_sdks import stoppable_client
    from turnctl.integrations.retries.of_tenacity import stoppable_retrying
    from turnctl.integrations.retries.of_urllib3 import stoppable_retry

__all__ = ["stoppable_client", "stoppable_retry", "stoppable_retrying"]

_HOMES = {
    "stoppable_client": "turnctl.integrations.retries.of_sdks",
    "stoppable_retry": "turnctl.integrations.retries.of_urllib3",
    "stoppable_retrying": "turnctl.integrations.retries.of_tenacity",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
