"""A bundle tells all of a task by itself: its verifier accepts what a ledger wrote, and refuses everything else."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from desk import OPERATOR, WORKER, Desk
from ledger_crews import Crew
from stores import fill

import turnctl
from turnctl.errors import BadArgument, LedgerRefused
from turnctl.ledger import dealings, gate
from turnctl.ledger.bundling import bundle_of
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.purging import purge
from turnctl.ledger.rows import chained
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.store import Store
from turnctl.ledger.verifier import Bundle, Refused

VERIFIER = Path(turnctl.__file__).parent / "ledger" / "verifier.py"


def bundled(store: Store, inc: str = "i1", **how: Any) -> bytes:
    found = bundle_of(store, inc, **{"payloads": True, "scope": "subtree", **how})
    assert isinstance(found, bytes)
    return found


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def written(found: list[dict[str, Any]]) -> bytes:
    """These lines as turnctl writes them, with a manifest that fits: what who forges a bundle would do."""
    texts = [json.dumps(one, sort_keys=True, separators=(",", ":")) + "\n" for one in found[:-1]]
    body = "".join(texts).encode()
    heads = {str(one.get("inc")): one.get("head") for one in found if one["line"] == "incarnation"}
    last = {**found[-1], "sha256": sha256(body).hexdigest(), "lines": len(texts), "heads": heads}
    return body + json.dumps(last, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def rechained(found: list[dict[str, Any]]) -> bytes:
    """The same with hashes that fit: what who forges the log as well would do."""
    ends: dict[str, tuple[int, str]] = {}
    for one in found:
        if one["line"] == "event":
            n, before = ends.get(one["inc"], (0, "0" * 64))
            one |= {"n": n + 1, "prev_hash": before}
            names = ("inc", "n", "kind", "actor", "authority", "read_only", "subject", "body", "at")
            one["hash"] = chained(before, *(one[name] for name in names))
            ends[one["inc"]] = (n + 1, one["hash"])
    for one in found:
        if one["line"] == "incarnation":
            one["lines"], one["head"] = ends[one["inc"]]
    return written(found)


def why(data: bytes) -> str:
    """Why it is refused; nothing where it is accepted."""
    try:
        Bundle(data)
    except Refused as refusal:
        return str(refusal)
    return ""


@pytest.fixture(params=["memory", "sqlite"])
def filled(request: pytest.FixtureRequest) -> Store:
    """A store with a bit of everything."""
    store: Store = MemoryStore() if request.param == "memory" else request.getfixturevalue("store")
    fill(store)
    return store


@pytest.fixture
def data() -> bytes:
    """The bundle of a task with a bit of everything."""
    store = MemoryStore()
    fill(store)
    return bundled(store)


# -- what is in it ------------------------------------------------------------------------------------------------


def test_bundle_holds_everything_and_is_accepted(filled: Store) -> None:
    """Each event, row, payload and receipt of it and of what is below it, and twice the same bytes."""
    data = bundled(filled)
    found = lines(data)
    bundle = Bundle(data)
    events = filled.read(lambda books: books.events("i1") + books.events("i2"))

    assert data == bundled(filled)
    assert len(events) == len([one for one in found if one["line"] == "event"]) == len(bundle.timeline())
    assert {"task", "cancellation", "lease", "activity", "child", "shared", "interest", "detached", "effect"} <= {
        one["of"] for one in found if one["line"] == "row"
    }
    assert ["payload"] * 4 == [base64.b64decode(one["body"]).decode() for one in found if one["line"] == "payload"]
    assert "acme/job i1 is running; 2 logs" in str(bundle)


def test_payloads_can_be_left_out(filled: Store) -> None:
    """Their hashes stay."""
    data = bundled(filled, payloads=False)

    assert "" == why(data)
    assert {None} == {one["body"] for one in lines(data) if one["line"] == "payload"}
    assert b"cGF5bG9hZA==" not in data


def test_children_can_be_left_out_and_that_is_said(filled: Store) -> None:
    """A child alone has the end of its own log; its parent alone names it."""
    alone = Bundle(bundled(filled, scope="self"))
    child = Bundle(bundled(filled, "i2"))

    assert ["i1"] == list(alone.events)
    assert ["incarnation i2 is not in it: left out"] == alone.notes
    assert ["i2"] == list(child.events)


def test_shared_work_that_another_task_told_of_is_marked(filled: Store) -> None:
    """Its last word is not in these logs, and the bundle does not pretend so."""
    desk = Desk.__new__(Desk)
    desk.store = filled
    desk.another("i5", "five")
    desk.deal(dealings.attach, WORKER, "i5", 1, "d")
    desk.deal(dealings.end_shared, WORKER, "i5", "d")
    found = Bundle(bundled(filled))

    assert ["shared d is as another task told it"] == found.notes


def test_purged_child_is_named_with_its_digest(store: SqliteStore) -> None:
    """Where a purge was cut off between child and parent."""
    desk = Desk(store)
    desk.child("i1", "i2")
    desk.deal(dealings.complete, WORKER, "i2", 1, "completed")
    desk.complete()
    head = desk.store.read(lambda books: books.events("i2"))[-1].hash
    store.transact(lambda books: books.bury("i2", 5.0, 1000))
    found = Bundle(bundled(store))

    assert [f"incarnation i2 is not in it: purged, its log ended with {head}"] == found.notes


def test_bundle_is_written_whole_and_replaces_nothing(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """For its owner alone; its fingerprint is told; another task, or one that was purged, is refused."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="k", payload="p") as sent:
        sent.complete("ok")
    path = tmp_path / "job.bundle"
    made = ledger.bundle(task, path)
    with pytest.raises(BadArgument, match="there already"):
        ledger.bundle(task, path)
    purge(ledger.store, older_than_s=0, tombstones_s=1e9, dry_run=False, include_detached=False)
    for inc, code in ((task.inc, "stale_incarnation"), ("i-none", "no_such_task")):
        with pytest.raises(LedgerRefused) as caught:
            ledger.bundle(inc, tmp_path / "other")
        assert code == caught.value.code

    assert 0o600 == path.stat().st_mode & 0o777
    assert (sha256(path.read_bytes()).hexdigest(), None, 1) == (made.fingerprint, made.refused, made.incarnations)
    assert ["job.bundle"] == [one.name for one in tmp_path.iterdir()]


def test_bundles_of_random_histories_are_accepted() -> None:
    """Whatever workers, cancellers and reconcilers did in which order."""
    for seed in range(25):
        crew = Crew(MemoryStore(), seed)
        crew.run()
        for task in crew.tasks():
            assert "" == why(bundled(crew.store, task.inc)), seed


# -- by itself ----------------------------------------------------------------------------------------------------


def alone(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the verifier where no turnctl can be imported."""
    return subprocess.run(
        [sys.executable, "-I", str(VERIFIER), *map(str, args)], capture_output=True, text=True, cwd="/"
    )


def test_verifier_needs_nothing_but_its_file(data: bytes, tmp_path: Path) -> None:
    """It accepts, replays the timeline, holds the fingerprint against a known one, and refuses with the place."""
    (tmp_path / "good").write_bytes(data)
    (tmp_path / "bad").write_bytes(data.replace(b'"alice"', b'"alicf"', 1))
    good, bad = alone(tmp_path / "good", "--timeline"), alone(tmp_path / "bad")
    known = sha256(data).hexdigest()
    same, other = (alone(tmp_path / "good", "--expect", one) for one in (known, "0" * 64))
    gone = alone(tmp_path / "none")

    assert (0, 1, 0, 1, 2) == tuple(one.returncode for one in (good, bad, same, other, gone))
    assert good.stdout.splitlines()[1:] == Bundle(data).timeline()
    assert "cancel.accepted c1 by alice (canceller)" in good.stdout
    assert bad.stdout.startswith("refused: line ")
    assert "another bundle than the one expected" in other.stdout
    assert "" == good.stderr + bad.stderr + other.stderr


def test_verifier_imports_the_standard_library_alone() -> None:
    """Also by its text: nothing of turnctl, nor of anybody else."""
    names = [line.split()[1] for line in VERIFIER.read_text().splitlines() if line.startswith(("import ", "from "))]

    assert {"__future__", "argparse", "base64", "json", "sys", "datetime", "hashlib", "typing"} == set(names)


# -- damage -------------------------------------------------------------------------------------------------------


def _bit(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _inserted(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice([b" ", b"\n", b"\0", b"{}\n", b"\xff", b"9"]) + data[at:]


def _lines(change: Callable[[list[bytes], random.Random], object]) -> Callable[[bytes, random.Random], bytes]:
    def run(data: bytes, chance: random.Random) -> bytes:
        found = data.splitlines(keepends=True)
        change(found, chance)
        return b"".join(found)

    return run


def _swap(found: list[bytes], chance: random.Random) -> None:
    a, b = chance.sample(range(len(found)), 2)
    found[a], found[b] = found[b], found[a]


def _payloads(found: list[bytes], chance: random.Random) -> None:
    at = chance.choice([n for n, one in enumerate(found) if b'"line":"payload"' in one])
    found[at] = found[at].replace(b'"cGF5', b'"cGF6')


DAMAGES = [
    *(_bit, _bit, _bit, _cut, _inserted, _lines(_swap), _lines(_payloads)),
    _lines(lambda found, chance: found.pop(chance.randrange(len(found)))),
    _lines(lambda found, chance: found.insert(chance.randrange(len(found)), chance.choice(found))),
    lambda data, chance: data + _cut(data, chance)[-300:] + b"x",
]


def test_thousand_random_damages_are_refused(data: bytes) -> None:
    """No byte is without meaning: each change is refused with a place, and none ends in an error."""
    said = set()
    for seed in range(1000):
        chance = random.Random(seed)
        damaged = chance.choice(DAMAGES)(data, chance)
        reason = why(damaged) if damaged != data else "the same"

        assert reason, seed
        said.add(reason.split(": ")[-1])
    assert 5 < len(said)


#: what who made the bundle says, and no log bears out
_CLAIMS = {"made_by", "authority", "durable", "scope", "why", "told_elsewhere", "pos"}


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    return [path] if pairs is None else [one for key, item in pairs for one in _leaves(item, (*path, key))]


def _other(value: Any, chance: random.Random) -> Any:
    choices: list[Any] = [None, True, 7, -1, 1e308, "x", "", [], {}, f"{value}x", "\ud800", 10**30]
    if isinstance(value, int):
        choices += [value + 1, value - 1]
    return chance.choice([one for one in choices if (one, type(one)) != (value, type(value))])


def test_forged_values_are_refused_by_the_chain(data: bytes) -> None:
    """Each value of each line, with a manifest made anew: refused, but for what the logs do not tell anyway."""
    for seed in range(200):
        chance = random.Random(seed)
        found = lines(data)
        at = chance.randrange(len(found) - 1)
        *path, last = chance.choice(_leaves(found[at]))
        of: Any = found[at]
        for key in path:
            of = of[key]
        of[last] = _other(of[last], chance)
        if last in _CLAIMS or "fields" in path:
            why(written(found))  # no error
        else:
            assert why(written(found)), (seed, found[at]["line"], path, last)


def test_forged_logs_are_judged_without_an_error(data: bytes) -> None:
    """Each value in a log, with all hashes made anew: refused or accepted, and then told; never a traceback."""
    refused = 0
    for seed in range(120):
        chance = random.Random(seed)
        found = lines(data)
        event = chance.choice([one for one in found if one["line"] == "event"])
        body = json.loads(event["body"])
        if chance.random() < 0.7:
            *path, last = chance.choice(_leaves(body) or [("row",)])
            of: Any = body
            for key in path:
                of = of[key]
            of[last] = _other(of[last] if path else None, chance)
            event["body"] = json.dumps(body)
        else:
            name = chance.choice(["kind", "actor", "authority", "read_only", "subject", "body", "at"])
            event[name] = _other(event[name], chance)
        try:
            bundle = Bundle(rechained(found))
        except Refused:
            refused += 1
        else:
            assert str(bundle)
            assert bundle.timeline()
    assert refused > 60


@pytest.mark.parametrize("of", ["event", "row", "payload", "incarnation"])
def test_line_that_was_taken_out_is_refused(data: bytes, of: str) -> None:
    """Each line of that kind, with a manifest made anew."""
    found = lines(data)
    for at, one in enumerate(found):
        if one["line"] == of:
            assert why(written(found[:at] + found[at + 1 :])), at


def test_space_where_it_means_nothing_is_refused(data: bytes) -> None:
    """Also in the manifest, over which no hash goes: there is one way to write a line."""
    *_, last = data.splitlines(keepends=True)
    loose = json.dumps(json.loads(last)).encode() + b"\n"

    assert json.loads(loose) == json.loads(last)
    assert "not written as turnctl writes it" in why(data[: -len(last)] + loose)


def test_child_that_was_taken_out_is_refused(data: bytes) -> None:
    """With all that is its own, and a manifest made anew: its parent knows of it."""
    kept = [
        one
        for one in lines(data)
        if one.get("inc") != "i2" and (one.get("of") in (None, "child") or "i2" not in one["values"])
    ]

    assert "the child i2 of i1 is not there" in why(written(kept))


# -- what cannot have been ----------------------------------------------------------------------------------------


def _history() -> list[dict[str, Any]]:
    """A cancelled task with one completed effect, and one that an operator closed."""
    desk = Desk(MemoryStore())
    desk.claimed("e1")
    desk.close("e1", "completed")
    desk.claimed("e2", key="k2")
    desk.cancel()
    desk.give_back()
    desk.deal(dealings.close_unknown, OPERATOR, "e2", reason="nobody knows")
    assert "cancelled_settled" == desk.state()
    return lines(bundled(desk.store))


def _retold(kind: str, **changes: Any) -> str:
    """Why a log is refused in which the last line of that kind, and the row, say something else."""
    found = _history()
    fields = found[0]["fields"]
    event = [one for one in found if one["line"] == "event" and one["kind"] == kind][-1]
    body = json.loads(event["body"])
    of, values = body["row"]
    key = values[0]
    for name, value in changes.items():
        values[fields[of].index(name)] = value
    event["body"] = json.dumps(body, sort_keys=True, separators=(",", ":"))
    for one in found:
        if one["line"] == "row" and one["of"] == of and one["values"][0] == key:
            one["values"] = values
    return why(rechained(found))


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("effect.completed", {"receipt_sha": None}, "effect e1 is completed, and has no receipt"),
        ("effect.completed", {"receipt_sha": "another"}, "by a receipt that is not there"),
        ("effect.completed", {"payload_sha": "another"}, "payload_sha of effect e1 changes"),
        ("effect.closed_by_operator", {"closed_by": None}, "the task is settled, and effect e2 is not resolved"),
        ("effect.closed_by_operator", {"disposition": "pending", "phase": "admitted"}, "admitted from closed"),
        ("task.cancelled_settled", {"state": "running"}, "becomes running from stopped_unresolved"),
        ("task.cancelled_settled", {"revision": 99}, "the revision of the task goes from"),
        ("cancel.accepted", {"accepted_rev": 9}, "at another revision"),
        ("cancel.accepted", {"accepted_rev": 1}, "at another revision"),
    ],
)
def test_log_that_contradicts_itself_is_refused(kind: str, changes: dict[str, Any], reason: str) -> None:
    """Also where every hash fits."""
    assert reason in _retold(kind, **changes)


def test_history_that_was_not_changed_is_accepted() -> None:
    """What is forged in these tests is what is refused."""
    assert "" == why(rechained(_history()))


def test_effect_after_the_cancellation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger whose gate did not hold is found out by its own log, which says where."""
    monkeypatch.setattr(gate, "closed_to", lambda *_: None)
    desk = Desk(MemoryStore())
    desk.cancel()
    desk.admit("late")
    reason = why(bundled(desk.store))

    assert "effect late was admitted after the cancellation c1" in reason
    assert "of i1)" in reason


def test_order_of_events_is_what_the_log_says() -> None:
    """Two events that have changed places are refused, also where every hash fits."""
    found = _history()
    events = [n for n, one in enumerate(found) if one["line"] == "event"]
    kinds = [found[n]["kind"] for n in events]
    a, b = events[kinds.index("effect.admitted")], events[kinds.index("effect.claimed")]
    found[a], found[b] = found[b], found[a]
    found[a]["pos"], found[b]["pos"] = found[b]["pos"], found[a]["pos"]

    assert "claimed before it was admitted" in why(rechained(found))
