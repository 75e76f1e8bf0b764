"""Clients of requests and urllib3 that a stop ends, and what they leave in their pools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websites import authority

import turnctl


def trusted_in(folder: Path) -> str:
    """A file with the certificate that signs those of the servers here."""
    path = folder / "ca.pem"
    authority().cert_pem.write_to_path(str(path))  # type: ignore[attr-defined]
    return str(path)


@contextlib.contextmanager
def session(trusted: str = "", **adapter: Any) -> Iterator[Any]:
    """A stoppable ``requests.Session``; with arguments for its adapter, if there are any."""
    from turnctl.integrations import requests

    with requests.Session() as one:
        if adapter:
            one.close()
            one.mount("https://", requests.Adapter(**adapter))
            one.mount("http://", requests.Adapter(**adapter))
        one.trust_env = False
        one.verify = trusted or True
        yield one


@contextlib.contextmanager
def manager(trusted: str = "", **options: Any) -> Iterator[Any]:
    """A stoppable ``urllib3.PoolManager``."""
    from turnctl.integrations.urllib3 import PoolManager

    with PoolManager(ca_certs=trusted or None, **options) as one:
        yield one


def idle(one: Any, url: str) -> list[Any]:
    """The connections that lie open in the pools of a session or manager."""
    own = one if hasattr(one, "connection_from_url") else one.get_adapter(url).poolmanager
    with own.pools.lock:
        pools = [own.pools[key] for key in own.pools.keys()]  # noqa: SIM118 - it is no dict, and refuses to be iterated
    return [conn for pool in pools for conn in list(pool.pool.queue) if conn is not None and conn.sock is not None]


def requests_of(report: turnctl.TurnReport) -> list[Any]:
    """What the report says of the requests of the turn, oldest first."""
    return [one for one in report.activities if one.kind == "http"]
