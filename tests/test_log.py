"""turnctl logs under its own logger, loads nothing until somebody listens, and prints nothing."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import structlog

from turnctl import log


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        stdin=subprocess.DEVNULL,
    )


def test_unheard_event_loads_nothing() -> None:
    """In a program that never imported logging an event imports neither logging nor structlog."""
    done = run_python(
        "import sys; from turnctl import log; log.event('turn.begun'); log.warning('turn.odd', n=1);"
        "print([m for m in ('logging', 'structlog', 'asyncio') if m in sys.modules])"
    )

    assert ("[]\n", "") == (done.stdout, done.stderr)


def test_warning_is_not_printed_by_last_resort() -> None:
    """A program with logging imported and not configured prints nothing, and structlog stays out."""
    done = run_python(
        "import logging, sys; from turnctl import log; log.warning('turn.odd', n=1);"
        "print('structlog' in sys.modules, logging.getLogger('turnctl').handlers)"
    )

    assert ("False [<NullHandler (NOTSET)>]\n", "") == (done.stdout, done.stderr)


def test_disabled_level_does_not_load_structlog() -> None:
    """With logging configured for warnings only, an event costs no structlog."""
    done = run_python(
        "import logging, sys; logging.basicConfig(level='WARNING'); from turnctl import log;"
        "log.event('turn.begun'); before = 'structlog' in sys.modules; log.warning('turn.odd');"
        "print(before, 'structlog' in sys.modules)"
    )

    assert "False True\n" == done.stdout
    assert "WARNING:turnctl:turn.odd\n" == done.stderr


def test_event_reaches_the_host(caplog: pytest.LogCaptureFixture) -> None:
    """A listening host gets readable text, the fields apart, and the caller's place."""
    with caplog.at_level(logging.DEBUG, logger="turnctl"):
        log.debug("turn.detail")
        log.event("turn.begun", turn_id="t1", session_id="chat 42", forced=True)
        log.warning("process.survived", pid=4711)
    records = caplog.records

    assert [
        ("turnctl", logging.DEBUG, "turn.detail"),
        ("turnctl", logging.INFO, 'turn.begun turn_id=t1 session_id="chat 42" forced=true'),
        ("turnctl", logging.WARNING, "process.survived pid=4711"),
    ] == caplog.record_tuples
    assert {"event": "process.survived", "pid": 4711} == getattr(records[2], "turnctl", None)
    assert {__file__} == {record.pathname for record in records}


def test_host_context_is_merged(caplog: pytest.LogCaptureFixture) -> None:
    """What the host bound in structlog's context stands in our events, odd names in the fields alone."""
    with (
        caplog.at_level(logging.INFO, logger="turnctl"),
        structlog.contextvars.bound_contextvars(request="r7", **{"odd name": 1}),
    ):
        log.event("turn.ended")

    assert "turn.ended request=r7" == caplog.messages[0]
    assert {"event": "turn.ended", "request": "r7", "odd name": 1} == getattr(caplog.records[0], "turnctl", None)


def test_percent_signs_are_text(caplog: pytest.LogCaptureFixture) -> None:
    """A percent sign in a name or a value is never a format."""
    with caplog.at_level(logging.INFO, logger="turnctl"):
        log.event("turn.%s", command="date +%s")

    assert 'turn.%s command="date +%s"' == caplog.messages[0]
