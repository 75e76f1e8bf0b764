"""The faces: sessions, adapters and managers of one's own, install(http=True), and an urllib3 that has changed."""

from __future__ import annotations

import copy
import pickle
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import assert_stopped, stop_at
from peers import Peer
from requestclients import idle, requests_of, session
from standins import Background, until
from websites import Website, website

import turnctl
from turnctl.waiting import abandoned

requests = pytest.importorskip("requests", reason="requests is what these tests are about")
urllib3 = pytest.importorskip("urllib3", reason="it is what requests is built on")

from turnctl.integrations import requests as faces  # noqa: E402 - only where it is installed
from turnctl.integrations import urllib3 as managers  # noqa: E402


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as site:
        yield site


@pytest.fixture
def plain() -> Iterator[Any]:
    with requests.Session() as one:
        one.trust_env = False
        yield one


def test_session_that_exists_is_made_stoppable(site: Website, plain: Any) -> None:
    """Its pools and their connections go on, and a stop reaches them from then on."""
    plain.get(f"{site.url}/ok")
    faces.stoppable(plain)
    found = faces.stoppable(plain)
    stopped = stop_at(lambda _: plain.get(f"{site.url}/sized"), site.stalled)
    ended = site.server.peer().ended.wait(5)

    assert found is plain
    assert_stopped(stopped)
    assert (True, 1) == (ended, len(site.server.peers))


def test_adapter_of_ones_own_keeps_what_it_does(site: Website, plain: Any) -> None:
    """A class of the host's own is put under ours, with its methods and its managers."""

    class Own(requests.adapters.HTTPAdapter):  # type: ignore[misc, name-defined]
        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            request.headers["X-Own"] = "1"
            return super().send(request, *args, **options)

    plain.mount("http://", Own())
    faces.stoppable(plain)
    stopped = stop_at(lambda _: plain.get(f"{site.url}/sized"), site.stalled)

    assert_stopped(stopped)
    assert isinstance(plain.get_adapter(site.url), Own)


def test_adapter_is_copied_and_pickled(site: Website) -> None:
    """A copy of a session, or one that came from a pickle, is stoppable as well."""
    with session() as one:
        for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            before = len(site.server.peers)
            stopped = stop_at(lambda _: other.get(f"{site.url}/sized"), lambda: site.stalled(before))  # noqa: B023
            other.close()

            assert_stopped(stopped)


def test_manager_and_pool_that_exist(site: Website) -> None:
    """The same for a manager of urllib3 with its pools, and for a pool that stands alone."""
    with urllib3.PoolManager() as manager:
        manager.request("GET", f"{site.url}/ok")
        managers.stoppable(manager)
        stopped = [stop_at(lambda _: manager.request("GET", f"{site.url}/sized"), site.stalled)]
    pool = managers.stoppable(urllib3.HTTPConnectionPool("localhost", site.port))
    stopped.append(stop_at(lambda _: pool.request("GET", "/sized"), lambda: site.stalled(1)))
    pool.close()

    for one in stopped:
        assert_stopped(one)
    assert 2 == len(site.server.peers)


def test_what_cannot_be_made_stoppable_is_refused(plain: Any) -> None:
    """A thing of another kind is told at once, and so is a wrong argument."""

    class Foreign(requests.adapters.BaseAdapter):  # type: ignore[misc, name-defined]
        def close(self) -> None:
            pass

    plain.mount("x://", Foreign())
    with pytest.raises(turnctl.BadArgument, match='no HTTPAdapter and cannot be made stoppable; .* fallback="call"'):
        faces.stoppable(plain)
    with pytest.raises(turnctl.BadArgument, match="takes a manager or a pool of urllib3"):
        managers.stoppable(plain)
    with pytest.raises(turnctl.BadArgument, match='fallback is "call" or None'):
        faces.Session(fallback="thread")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        faces.Adapter(no_such=1)


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An urllib3 that gets its connections in another way."""
    monkeypatch.setattr(urllib3.connectionpool.HTTPConnectionPool, "_get_conn", lambda self, timeout=None: None)


@pytest.mark.usefixtures("changed")
def test_urllib3_that_has_changed_is_refused(plain: Any) -> None:
    """Whichever face is asked for, before anything is sent."""
    for face in (
        faces.Session,
        faces.Adapter,
        faces.PoolManager,
        faces.changes,
        lambda: faces.stoppable(plain),
        lambda: managers.stoppable(urllib3.PoolManager()),
    ):
        with pytest.raises(turnctl.ClientChanged, match="HTTPConnectionPool._get_conn does not use pool, get") as told:
            face()

        assert "urllib3" == told.value.client
        assert ("HTTPConnectionPool._get_conn: pool", "HTTPConnectionPool._get_conn: get") == told.value.missing


def test_changed_urllib3_falls_back_to_call(site: Website, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fallback="call" a request runs on a thread that a stop leaves behind, and the report names it."""

    def refuse() -> None:
        raise turnctl.ClientChanged("changed")

    monkeypatch.setattr(managers, "refuse_if_changed", refuse)
    with faces.Session(fallback="call") as one:
        one.trust_env = False
        with turnctl.turn(grace=0):
            text = one.get(f"{site.url}/ok").text
            with pytest.raises(turnctl.ClientChanged, match="leave stream=True out"):
                one.get(f"{site.url}/ok", stream=True)
        outside = one.get(f"{site.url}/ok", stream=True).text
        with turnctl.turn(grace=0) as turn:
            stopper = threading.Thread(target=lambda: (site.stalled(0), turn.stop("enough")))
            stopper.start()
            one.get(f"{site.url}/sized")
        stopper.join(5)
        site.stalled(0).go_on.set()
        assert until(lambda: abandoned.count() == 0)

    record = turn.report.activities[0]
    assert ("ok", "ok", "call", "abandoned") == (text, outside, record.kind, record.state)
    assert f"GET {site.url}/sized by Adapter" == record.name


def test_adapter_of_another_kind_falls_back_to_call(plain: Any) -> None:
    """What is not built on urllib3 at all runs in a call, if asked for."""

    class Foreign(requests.adapters.BaseAdapter):  # type: ignore[misc, name-defined]
        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            response = requests.Response()
            response.status_code, response._content = 200, b"foreign"
            return response

        def close(self) -> None:
            pass

    plain.mount("x://", Foreign())
    faces.stoppable(plain, fallback="call")
    with turnctl.turn() as turn:
        text = plain.get("x://here/").text

    assert ("foreign", "call") == (text, turn.report.activities[0].kind)


def test_install_reaches_everything(site: Website, plain: Any) -> None:
    """Plain requests.get, a session and a connection that were there before end with the stop, until it is undone."""
    plain.get(f"{site.url}/ok")
    with turnctl.install(http=True):
        kept = stop_at(lambda _: plain.get(f"{site.url}/sized"), site.stalled)
        new = stop_at(lambda _: requests.get(f"{site.url}/sized"), lambda: site.stalled(1))
        with session() as ours:
            twice = stop_at(lambda _: ours.get(f"{site.url}/sized"), lambda: site.stalled(2))
    with turnctl.turn() as turn:
        plain.get(f"{site.url}/ok")

    for one in (kept, new, twice):
        assert_stopped(one)
    assert [1, 1, 1] == [len(requests_of(one.report)) for one in (kept, new, twice)]
    assert () == turn.report.activities
    assert "_get_conn" == urllib3.connectionpool.HTTPConnectionPool._get_conn.__name__


def test_undone_in_the_middle_of_a_request(site: Website) -> None:
    """Its connection is let go all the same: who has it next, in no turn, is not stopped for the first one's turn."""
    with urllib3.PoolManager() as manager, turnctl.turn() as turn:
        installed = turnctl.install(http=True)
        undo = Background(lambda: (site.stalled(), installed.uninstall(), site.stalled().go_on.set()))
        first = manager.request("POST", f"{site.url}/upload", body=b"first").data
        undo.result()
        turn.stop()
        second = Background(lambda: manager.request("GET", f"{site.url}/ok").data).result()

    assert (b"first", b"ok") == (first, second)
    assert 1 == len(site.server.peers)


def test_stub_of_an_adapter_that_takes_names_only(site: Website, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests put in place of ``HTTPAdapter.send`` is called as a session calls it."""

    def send(adapter: Any, request: Any, **options: Any) -> Any:
        response = requests.Response()
        response.status_code, response._content = 200, b"stub"
        return response

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    with session() as ours, turnctl.turn():
        text = ours.get(f"{site.url}/ok").text

    assert "stub" == text


def test_install_waits_for_a_full_pool(site: Website) -> None:
    """A pool that was there before is waited for with the stop as well."""
    with urllib3.PoolManager(maxsize=1, block=True) as manager:
        held = manager.request("GET", f"{site.url}/sized", preload_content=False)
        with turnctl.install(http=True):
            stopped = stop_at(lambda _: manager.request("GET", f"{site.url}/ok"), site.stalled, stage="waiting for a")
        held.close()
        held.release_conn()

    assert_stopped(stopped)
    assert ["GET /sized"] == site.seen


def test_queue_that_cannot_be_woken_is_refused(site: Website) -> None:
    """A pool that waits in a queue of another kind is told before it waits."""

    class Pool(urllib3.HTTPConnectionPool):  # type: ignore[misc, name-defined]
        QueueCls = queue.Queue

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.pool = _Odd()

    class _Odd:
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            return None

        def put(self, *args: Any, **options: Any) -> None:
            pass

    pool = managers.stoppable(Pool("localhost", site.port, block=True))
    with turnctl.turn(), pytest.raises(turnctl.ClientChanged, match="_Odd, which a stop cannot wake"):
        pool.request("GET", "/ok")

    assert [] == site.seen


def test_connection_of_somebody_else(tmp_path: Any) -> None:
    """A connection that connects in its own way, over a Unix socket say, is raced from then on."""
    path = str(tmp_path / "socket")

    class Connection(urllib3.connection.HTTPConnection):  # type: ignore[misc, name-defined]
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(path)

    class Pool(urllib3.HTTPConnectionPool):  # type: ignore[misc, name-defined]
        ConnectionCls = Connection

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        served: list[Peer] = []

        def serve() -> None:
            sock, _ = listener.accept()
            served.append(Peer(sock))
            with sock:
                served[0].until(b"\r\n\r\n")
                served[0].send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
                try:
                    served[0].stall()
                except EOFError:
                    pass

        server = threading.Thread(target=serve)
        server.start()
        pool = managers.stoppable(Pool("localhost"))
        stopped = stop_at(lambda _: pool.request("GET", "/"), lambda: None, stage="reading the response")
        server.join(5)
        pool.close()

    assert_stopped(stopped)
    assert served[0].ended.is_set()
    assert ["http", "connect"] == [one.kind for one in stopped.report.activities]


def test_http_client_is_left_alone(site: Website) -> None:
    """install(http=True) changes nothing of the standard library."""
    import http.client

    with turnctl.install(http=True), turnctl.turn() as turn:
        conn = http.client.HTTPConnection("localhost", site.port)
        conn.request("GET", "/ok")
        body = conn.getresponse().read()
        conn.close()

    assert (b"ok", ()) == (body, turn.report.activities)


def test_pool_lives_on(site: Website) -> None:
    """After a stop the same session serves on, by the connections that it has and by new ones."""
    with session() as one:
        for n in range(1, 4):
            seen = ["GET /sized"] * n
            stopped = stop_at(
                lambda _: one.get(f"{site.url}/sized"),
                lambda: until(lambda: seen == [path for path in site.seen if path == "GET /sized"]),  # noqa: B023
            )
            assert_stopped(stopped)
            assert "ok" == one.get(f"{site.url}/ok").text

        assert 1 == len(idle(one, site.url))
