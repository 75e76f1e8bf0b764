"""Writing a bundle: one file that tells of an incarnation, and of what is below it, to who has no ledger.

Lines of JSON, each written in one way only, so that the same state gives the same bytes: what it is, the logs with
their hashes, every row, payload and receipt, and a manifest over all that is before it. ``ledger.verifier`` reads it,
by itself; docs/bundle.md says what each line holds.

Reads one state, in one go, and keeps it in memory; writes nothing while it reads. Blocks for the store and the disk.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from turnctl._version import __version__
from turnctl.beside import put_whole
from turnctl.errors import BadArgument
from turnctl.ledger import schema
from turnctl.ledger.moves import none
from turnctl.ledger.rows import KINDS, fields_of, name_of, values_of
from turnctl.ledger.verifier import EVENT, SCHEMA, Bundle, Refused
from turnctl.records.changes import Refusal
from turnctl.records.retention import Bundled
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.ledger.store import Books, Store
    from turnctl.records.tasks import Scope

__all__ = ["bundle_of", "described", "put_new", "write_bundle"]


def bundle_of(store: Store, inc: str, *, payloads: bool, scope: Scope) -> bytes | Refusal:
    """The bytes of the bundle of ``inc``."""
    return store.read(lambda books: _Bundle(books, store, payloads=payloads, scope=scope).of(inc))


def write_bundle(
    store: Store, inc: str, path: str | os.PathLike[str], *, payloads: bool, scope: Scope
) -> Bundled | Refusal:
    """Write it to ``path``, where nothing is yet; see ``Ledger.bundle``."""
    path = os.fsdecode(path)
    if "\0" in path:
        raise BadArgument(f"the path of a bundle has no NUL: {path!r}")
    if os.path.lexists(path):
        raise _there(path)
    data = bundle_of(store, inc, payloads=payloads, scope=scope)
    if isinstance(data, Refusal):
        return data
    put_new(path, data)
    return described(inc, path, data)


def described(inc: str, path: str, data: bytes) -> Bundled:
    """What to say of a bundle, as its own verifier reads it."""
    refused, count = None, 0
    try:
        count = len(Bundle(data).events)
    except Refused as error:
        refused = str(error)
    return Bundled(inc, path, sha256(data).hexdigest(), count, data.count(b"\n"), len(data), refused)


def _there(path: str) -> BadArgument:
    text = f"{path} is there already, and a bundle replaces nothing; name another file, or remove it"
    return BadArgument(visible(text))


def put_new(path: str, data: bytes) -> None:
    """Write it: all of it or nothing under that name, where nothing is yet; for its owner alone."""
    try:
        put_whole(path, data, is_new=True, mode=0o600)
    except FileExistsError:
        raise _there(path) from None


class _Bundle:
    def __init__(self, books: Books, store: Store, *, payloads: bool, scope: Scope) -> None:
        self.books, self.store, self.payloads, self.scope = books, store, payloads, scope
        self.heads: dict[str, str] = {}

    def of(self, inc: str) -> bytes | Refusal:
        if self.books.task(inc) is None:
            return none(self.books, inc)
        lines = [self._line("bundle", **self._header(inc))]
        incs, missing = self._tree(inc)
        for one in incs:
            lines += self._incarnation(one)
        lines += self._shared(incs)
        lines += [self._line("missing", inc=one, why=why) for one, why in missing]
        body = "".join(lines).encode("ascii")
        schemas = {"bundle": SCHEMA, "ledger": schema.VERSION}
        made = sha256(body).hexdigest()
        return body + self._line("manifest", lines=len(lines), sha256=made, heads=self.heads, schemas=schemas).encode()

    def _line(self, what: str, **more: Any) -> str:
        return json.dumps({"line": what, **more}, sort_keys=True, separators=(",", ":")) + "\n"

    def _header(self, inc: str) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "made_by": f"turnctl {__version__}",
            "authority": self.store.authority,
            "durable": self.store.durable,
            "root": inc,
            "scope": self.scope,
            "payloads": self.payloads,
            "ledger_schema": schema.VERSION,
            "fields": {kind: list(fields_of(kind)) for kind in KINDS},
        }

    def _tree(self, inc: str) -> tuple[list[str], list[tuple[str, str]]]:
        """What is in it, parents first, and what is not, and why."""
        incs, missing = [inc], []
        for one in incs:
            for kind, values in self.books.rows_of(one):
                if kind == "child":
                    child = values[fields_of("child").index("child_inc")]
                    if self.books.task(child) is None:
                        grave = self.books.tombstone(child)
                        ended = "" if grave is None else f", its log ended with {grave.digest}"
                        missing.append((child, f"purged{ended}"))
                    elif self.scope == "self":
                        missing.append((child, "left out"))
                    else:
                        incs.append(child)
        return incs, missing

    def _incarnation(self, inc: str) -> Iterator[str]:
        events = self.books.events(inc)
        self.heads[inc] = events[-1].hash
        yield self._line("incarnation", inc=inc, lines=len(events), head=events[-1].hash)
        for event, pos in zip(events, self.books.positions(inc), strict=True):
            yield self._line("event", pos=pos, **{name: getattr(event, name) for name in EVENT})
        for kind, values in self.books.rows_of(inc):
            yield self._line("row", of=kind, values=values)
        for effect in self.books.effects_of(inc):
            body = self.books.payload(effect.effect_id) if self.payloads else None
            text = None if body is None else base64.b64encode(body).decode()
            yield self._line("payload", effect_id=effect.effect_id, sha=effect.payload_sha, body=text)

    def _shared(self, incs: list[str]) -> Iterator[str]:
        """Shared work that one of these has or had an interest in, and whether its last word is in a log of another."""
        names: dict[str, None] = {}
        said: dict[str, tuple[int, list[Any]]] = {}
        for inc in incs:
            for event, pos in zip(self.books.events(inc), self.books.positions(inc), strict=True):
                row = json.loads(event.body).get("row")
                if row is not None and row[0] == "shared":
                    name = row[1][0]
                    said[name] = max(said.get(name, (0, [])), (pos, row[1]))
            names |= {values[0]: None for kind, values in self.books.rows_of(inc) if kind == "interest"}
        for name in names:
            shared = self.books.shared(name)
            if shared is not None:
                values = values_of(shared)
                elsewhere = name not in said or said[name][1] != values
                yield self._line("row", of=name_of(shared), values=values, told_elsewhere=elsewhere)
