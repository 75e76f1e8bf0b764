"""Structured log events under the stdlib logger ``turnctl``, silent and unloaded unless the host listens.

Nothing is imported, configured or printed until a handler of the host would get the record. Then structlog
builds the event, with the host's structlog context variables merged in, and stdlib logging carries it: the
message is readable text, and the fields stand apart in ``record.turnctl`` for handlers that write JSON.

May be called from any thread, not from ``cancel()`` nor a signal handler: handlers take locks and write.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from turnctl.spelling import visible

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from logging import Logger

__all__ = ["debug", "event", "to_stderr", "warning"]

_NAME = "turnctl"
_DEBUG, _INFO, _WARNING = 10, 20, 30  # logging's own numbers, without logging


def debug(name: str, **fields: object) -> None:
    """Log a detail."""
    _log(_DEBUG, name, fields)


def event(name: str, **fields: object) -> None:
    """Log a fact of normal running, such as ``turn.begun``."""
    _log(_INFO, name, fields)


def warning(name: str, **fields: object) -> None:
    """Log something that a person should look at, such as a survivor."""
    _log(_WARNING, name, fields)


def to_stderr(level: str, *, as_json: bool = False) -> Callable[[], None]:
    """For the command line: write events from ``level`` on ("debug", "info") to stderr, a line each, until what is
    returned is called. As JSON they have their fields, and a time of RFC 3339 in UTC.
    """
    import logging

    import structlog

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            if not as_json:
                return f"{at} {record.levelname.lower():<7} {record.getMessage()}"
            fields = getattr(record, "turnctl", None) or {"event": record.getMessage()}
            values = {"at": at, "level": record.levelname.lower(), **fields}
            return str(structlog.processors.JSONRenderer(default=str)(None, "", values))

    from datetime import UTC, datetime

    logger = logging.getLogger(_NAME)
    handler = logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(Lines())
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False

    def end() -> None:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
        logger.manager._clear_cache()  # type: ignore[attr-defined]

    return end


def _log(level: int, name: str, fields: dict[str, object]) -> None:
    # who has never imported logging cannot have asked for our events
    logging = sys.modules.get("logging")
    if logging is None or not hasattr(logging, "getLogger"):
        return
    logger: Logger = logging.getLogger(_NAME)
    if not logger.isEnabledFor(level) or not _is_heard(logger):
        return
    text, extra = _render(name, fields)
    logger.log(level, "%s", text, extra={"turnctl": extra}, stacklevel=3)


def _is_heard(logger: Logger) -> bool:
    """Whether a handler other than a NullHandler would get a record; adds a NullHandler where there is none.

    Without one, logging's last resort would print our warnings in a program that asked for nothing.
    """
    from logging import NullHandler

    if not any(isinstance(handler, NullHandler) for handler in logger.handlers):
        logger.addHandler(NullHandler())
    at: Logger | None = logger
    while at is not None:
        if any(not isinstance(handler, NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


def _render(name: str, fields: dict[str, object]) -> tuple[str, dict[str, Any]]:
    import structlog

    built: MutableMapping[str, Any] = {**fields, "event": name}
    built = structlog.contextvars.merge_contextvars(None, "", built)
    head = str(built.pop("event"))
    # the host may have bound names that logfmt refuses; those stand in the fields alone
    shown = {key: value for key, value in built.items() if key.isidentifier()}
    line = structlog.processors.LogfmtRenderer(bool_as_flag=False)(None, "", shown)
    return visible(f"{head} {line}".rstrip()), {"event": head, **built}
