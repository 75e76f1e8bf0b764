"""What a report spells of a request: no key, no password, no query, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import face
from requestclients import manager, session
from websites import Website, website

import turnctl

CLIENTS = ("httpx", "httpx2", "requests", "urllib3")


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as site:
        yield site


@pytest.fixture(params=CLIENTS)
def get(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Asks for a URL with some headers."""
    name = request.param
    if name in ("requests", "urllib3"):
        pytest.importorskip(name, reason=f"{name} is what this test is about")
        with session() if name == "requests" else manager() as one:
            yield one.get if name == "requests" else lambda url, headers: one.request("GET", url, headers=headers)
        return
    with face(name).Client(trust_env=False) as one:
        yield one.get


def test_header_that_is_refused(site: Website, get: Any) -> None:
    """A key with a line end after it, which the client spells in its error."""
    with turnctl.turn() as turn, pytest.raises(Exception, match="secret"):
        get(site.url, headers={"Authorization": "Bearer sk-secret\n"})

    assert {"failed"} >= {one.state for one in turn.report.activities}
    assert "secret" not in repr(turn.report)


@pytest.mark.parametrize("path", ["/ok", "/redirect?ok", "/"])
def test_url_with_a_key(site: Website, get: Any, path: str) -> None:
    """User, password and query, also where the connection is refused, or after a redirect."""
    where = site.url if path != "/" else "http://127.0.0.1:1"
    url = f"{where.replace('://', '://me:secret1@')}{path}?key=secret2"
    error: BaseException | None = None
    with turnctl.turn() as turn:
        try:
            get(url, headers={"Authorization": "Bearer secret3"})
        except Exception as caught:
            error = caught
    said = repr(turn.report)

    assert (path == "/") == (error is not None), error
    assert "Connection refused" in said if error else "completed" in said
    assert "secret" not in said
