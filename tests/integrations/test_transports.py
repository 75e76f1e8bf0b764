"""What a transport of ours goes around, what it refuses, and what it does instead where that was asked for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import NAMES, assert_stopped, face, stop_at
from standins import Background, until
from websites import Website, client_tls, website

import turnctl
from turnctl import BadArgument, ClientChanged
from turnctl.integrations.cores import making


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    face(request.param)
    return str(request.param)


@pytest.fixture
def http(name: str) -> Any:
    return face(name)


@pytest.fixture
def plain(name: str) -> Any:
    """The package itself."""
    return pytest.importorskip(name, reason=f"{name} is what these tests are about")


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as site:
        yield site


def options() -> dict[str, Any]:
    return {"timeout": 20, "trust_env": False, "verify": client_tls()}


def retrying(plain: Any) -> type:
    """A transport as hosts write them: around another one."""

    class Retrying(plain.BaseTransport):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def handle_request(self, request: Any) -> Any:
            for _ in range(2):
                try:
                    return self.inner.handle_request(request)
                except plain.TransportError:
                    continue
            return self.inner.handle_request(request)

        def close(self) -> None:
            self.inner.close()

    return Retrying


def test_transport_around_a_transport(http: Any, plain: Any, site: Website) -> None:
    """A retry of the host's own around httpx's transport: a stop gets through, and is not retried."""
    inner = retrying(plain)(plain.HTTPTransport(verify=client_tls(), trust_env=False))
    with plain.Client(transport=http.Transport(inner), timeout=20) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), site.stalled)

    assert_stopped(stopped)
    assert ["GET /silence"] == site.seen


def test_mounts_are_wrapped(http: Any, plain: Any, site: Website) -> None:
    """Each transport of a client, and each but once."""
    mounts = {"all://": plain.HTTPTransport(verify=client_tls()), "all://other": None}
    with http.Client(mounts=mounts, **options()) as one:
        http.stoppable(one)
        kinds = [type(found) for found in one._mounts.values()]
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), site.stalled)

    assert {http.Transport, type(None)} == set(kinds)
    assert not any(isinstance(found.wrapped, http.Transport) for found in one._mounts.values() if found)
    assert_stopped(stopped)


def test_client_that_is_in_use(http: Any, plain: Any, site: Website) -> None:
    """Connections from before it was made stoppable are closed by a stop as well."""
    with plain.Client(**options()) as one:
        one.get(f"{site.url}/ok")
        assert one is http.stoppable(one)
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), lambda: until(lambda: "GET /silence" in site.seen))

    assert_stopped(stopped)
    assert 1 == len(site.server.peers)


def test_own_answers_are_checked(http: Any, plain: Any) -> None:
    """A MockTransport runs on the caller's thread; the stop is looked at before and after, and the report says so."""
    with turnctl.turn() as turn:

        def answer(_: Any) -> Any:
            turn.stop("enough")
            return plain.Response(200, text="hello")

        with http.Client(transport=plain.MockTransport(answer)) as one:
            with pytest.raises(turnctl.CancelledError, match="enough"):
                one.get("http://x/y")

    assert ["cancelled"] == [one.state for one in turn.report.activities]
    assert str(turn.report.activities[0].detail).startswith("in MockTransport, which nothing interrupts")


def test_own_answers_come(http: Any, plain: Any) -> None:
    """With no stop they are as they were, with and without a turn."""
    with http.Client(transport=plain.MockTransport(lambda _: plain.Response(200, text="hello"))) as one:
        before = one.get("http://x/").text
        with turnctl.turn() as turn:
            inside = one.get("http://x/").text

    assert ("hello", "hello") == (before, inside)
    assert ["completed"] == [one.state for one in turn.report.activities]


def closed(plain: Any) -> type:
    """A transport that leads to no pool that is known, and blocks until told not to."""

    class Closed(plain.BaseTransport):  # type: ignore[misc]
        def __init__(self) -> None:
            self.inside = threading.Event()
            self.go_on = threading.Event()

        def handle_request(self, request: Any) -> Any:
            self.inside.set()
            if request.url.path == "/block":
                self.go_on.wait(10)
            return plain.Response(200, text="late")

    return Closed


def test_transport_that_nothing_interrupts_is_refused(http: Any, plain: Any) -> None:
    """With what to do instead; and nothing was opened that stays open."""
    with pytest.raises(BadArgument, match='Closed has no pool of httpcore2? inside.*fallback="call"'):
        http.Client(transport=closed(plain)())


def test_fallback_call_leaves_it_behind(http: Any, plain: Any) -> None:
    """The caller is free at once; what was left behind is named in the report."""
    transport = closed(plain)()
    with http.Client(transport=transport, fallback="call") as one:
        with turnctl.turn():
            assert "late" == one.get("http://x/").text
        transport.inside.clear()
        with turnctl.turn(grace="0.05s") as turn:
            stopper = Background(lambda: (transport.inside.wait(5), turn.stop("enough")))
            with pytest.raises(turnctl.CancelledError, match="enough"):
                one.get("http://x/block")
            stopper.result()
        transport.go_on.set()

    found = turn.report.activities[0]
    assert ("call", "abandoned") == (found.kind, found.state)
    assert "GET http://x/block" in found.name
    assert "Closed" in found.name


def test_fallback_check_looks_before_and_after(http: Any, plain: Any) -> None:
    """What was asked for, and no more."""
    transport = closed(plain)()
    with http.Client(transport=transport, fallback="check") as one, turnctl.turn() as turn:
        turn.stop("enough")
        with pytest.raises(turnctl.CancelledError, match="enough"):
            one.get("http://x/")

    assert not transport.inside.is_set()


@pytest.fixture
def changed(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A core whose internals have changed, in a process that has not wrapped it yet."""
    core = making.FAMILIES[name]
    known = making.library(core)
    with contextlib.ExitStack() as stack:
        stack.callback(making._libraries.__setitem__, core, known)
        making._libraries[core] = other = making.Library(core)
        other._asked.append((f"no {core}._backends.sync.SyncStream.read",))
        monkeypatch.setattr(making, "_wrapped", set())
        monkeypatch.setattr(making, "_made", {})
        yield


@pytest.mark.usefixtures("changed")
def test_changed_client_is_told_at_once(http: Any, plain: Any) -> None:
    """By the making of a client, by stoppable and by install; never by a request that nothing stops."""
    with plain.Client(**options()) as one:
        for make in (lambda: http.Client(**options()), lambda: http.stoppable(one), lambda: turnctl.install(http=True)):
            with pytest.raises(ClientChanged, match="SyncStream.read") as caught:
                make()
            assert caught.value.missing[0].startswith("no httpcore")
        with turnctl.turn():
            pass


@pytest.mark.usefixtures("changed")
def test_changed_client_is_called_where_asked(http: Any, site: Website) -> None:
    """``fallback="call"``: each request on a thread that a stop leaves behind; bodies too."""
    with http.Client(fallback="call", **options()) as one:
        with turnctl.turn():
            whole = one.get(f"{site.url}/ok").text
            with one.stream("GET", f"{site.url}/stream?3") as response:
                lines = [line for line in response.iter_lines() if line]
        with turnctl.turn(grace="0.05s") as turn:
            stopper = Background(lambda: (site.stalled(), turn.stop("enough")))
            with pytest.raises(turnctl.CancelledError, match="enough"):
                one.get(f"{site.url}/silence")
            stopper.result()
        site.stalled().sock.shutdown(2)
        assert until(lambda: not any("GET http" in thread.name for thread in threading.enumerate()))

    assert ("ok", 3) == (whole, len(lines))
    assert "abandoned" == turn.report.activities[0].state


def test_what_is_missing_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name that is replaced is looked for, with its arguments and what its code speaks of."""
    library = making.Library(making.FAMILIES[name])
    good = library.missing()
    part = library.part("_synchronization")
    monkeypatch.delattr(part.Semaphore, "release")
    monkeypatch.setattr(part.Event, "wait", lambda self, seconds: None)
    monkeypatch.setattr(part.Event, "__init__", lambda self: None)
    missing = making.Library(making.FAMILIES[name]).missing()

    core = making.FAMILIES[name]
    assert () == good
    assert (
        f"{core}._synchronization.Event.__init__ without _event",
        f"{core}._synchronization.Event.wait() takes other arguments",
        f"no {core}._synchronization.Semaphore.release",
    ) == missing


@pytest.mark.parametrize("given", ["class", "async", "other", "bad fallback", "no transport"])
def test_misuse_is_told(http: Any, plain: Any, given: str) -> None:
    """What was given, and what would do."""
    with pytest.raises(BadArgument) as caught:
        if given == "class":
            http.stoppable(plain.Client)
        elif given == "async":
            http.stoppable(plain.AsyncClient())
        elif given == "other":
            http.stoppable(object())
        elif given == "bad fallback":
            http.Transport(plain.MockTransport(lambda _: plain.Response(200)), fallback="never")
        else:
            http.Transport(object())

    told = {
        "class": "not the class Client",
        "async": "turn.bridge_asyncio()",
        "other": "not object",
        "bad fallback": "unknown fallback 'never'",
        "no transport": "goes around a transport",
    }
    assert told[given] in str(caught.value)
