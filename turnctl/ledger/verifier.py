"""Verifies a bundle of turnctl by itself: one file, Python 3.9 or later, no turnctl needed.

    python verifier.py FILE [--timeline] [--expect SHA256]

A bundle is lines of JSON (docs/bundle.md). What is checked: that it is whole and each byte as it was written; each log
by its hash chain; each row against the log; payloads and receipts against their hashes; and that the log itself tells
nothing impossible (something admitted after the cancellation, an outcome without a receipt, a state that comes back).

Limit: who can write a bundle can write another one that is as consistent; only a fingerprint, or the hash that a log
ends with, that was kept elsewhere shows that. Get this file from where you get turnctl, not with the bundle.

Exit status: 0 accepted, 1 refused with what is wrong and where, 2 could not be read, or wrong use.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any, NoReturn

__all__ = ["EVENT", "SCHEMA", "Bundle", "Refused"]

SCHEMA = "turnctl.bundle/1"
FIRST_HASH = "0" * 64
EVENT = ("inc", "n", "kind", "actor", "authority", "read_only", "subject", "body", "at", "prev_hash", "hash")
KEYS = {
    "task": ("inc",),
    "cancellation": ("inc",),
    "lease": ("inc",),
    "activity": ("inc", "ref"),
    "child": ("parent_inc", "child_inc"),
    "shared": ("shared_id",),
    "interest": ("shared_id", "inc"),
    "detached": ("from_inc", "ref"),
    "effect": ("effect_id",),
    "receipt": ("effect_id", "body_sha"),
    "turn": ("turn_id",),
}
DEFINITIVE = ("rejected", "completed", "provider_cancelled")
#: which states, and phases of an effect, may follow which
STATES: dict[str | None, tuple[str, ...]] = {
    None: ("running",),
    "running": ("completed", "failed", "cancel_requested"),
    "cancel_requested": ("draining",),
    "draining": ("cancelled_settled", "stopped_unresolved"),
    "stopped_unresolved": ("cancelled_settled",),
}
PHASES = {"admitted": ("claimed", "suppressed"), "claimed": ("closed",), "closed": ("claimed",)}
STAYS = {
    "task": ("tenant", "task_id", "seq", "root_inc", "parent_inc", "promise", "policy"),
    "cancellation": ("cr", "accepted_rev", "scope", "requester", "reason", "auth_ref", "at"),
    "effect": ("inc", "intent_key", "kind", "payload_sha", "admitted_rev", "compensates"),
    "receipt": ("source", "body", "establishes", "at"),
}

Row = dict[str, Any]


class Refused(Exception):
    """The bundle is not what a ledger has written: where, and what is wrong."""


def refuse(where: str, what: str) -> NoReturn:
    raise Refused(f"{where}: {what}")


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def is_hash(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


def lines_of(data: bytes) -> list[tuple[str, Row]]:
    """The lines, each with its place; refused where one byte is not as it was written."""
    if not data.endswith(b"\n"):
        refuse("end of file", "it is cut off: the last line is not whole")
    raw = data[:-1].split(b"\n")
    found = []
    for number, text in enumerate(raw, 1):
        where = f"line {number}"
        try:
            value = json.loads(text.decode("ascii"))
            same = isinstance(value, dict) and canonical(value).encode("ascii") == text
        except (ValueError, RecursionError) as error:
            refuse(where, f"it is not JSON as turnctl writes it ({type(error).__name__})")
        if not same or not isinstance(value.get("line"), str):
            refuse(where, "it is not written as turnctl writes it")
        found.append((where, value))
    last, manifest = found[-1]
    if manifest["line"] != "manifest":
        refuse("end of file", "it is cut off: there is no manifest at its end")
    if manifest.get("sha256") != sha256(data[: -len(raw[-1]) - 1]).hexdigest():
        refuse(last, "the lines before are not those that the manifest was made for: something was changed in them")
    if manifest.get("lines") != len(raw) - 1:
        refuse(last, f"the manifest says {manifest.get('lines')} lines, and there are {len(raw) - 1}")
    return found


class Bundle:
    """The bundle of these bytes, found to be right; making it raises ``Refused``."""

    def __init__(self, data: bytes) -> None:
        self.fingerprint = sha256(data).hexdigest()
        self.events: dict[str, list[Row]] = {}
        self.rows: dict[tuple[str, tuple[Any, ...]], Row] = {}
        self.notes: list[str] = []
        self._told: dict[tuple[str, tuple[Any, ...]], tuple[int, Row, str]] = {}
        self._given: dict[tuple[str, tuple[Any, ...]], tuple[str, Row, bool]] = {}
        self._heads: dict[str, tuple[str, Row]] = {}
        self._payloads: dict[str, tuple[str, Row]] = {}
        self._missing: dict[str, str] = {}
        self._positions: dict[int, str] = {}
        where = "line 1"
        try:
            lines = lines_of(data)
            where, self.header = lines[0]
            self._begin(where)
            for where, line in lines[1:-1]:
                self._take(where, line)
            where, manifest = lines[-1]
            self._end(where, manifest)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 - a field that is missing, or of another kind
            refuse(where, f"it does not hold what it should ({type(error).__name__}: {error})")

    def _begin(self, where: str) -> None:
        if self.header["line"] != "bundle" or self.header.get("schema") != SCHEMA:
            refuse(where, f"this is no bundle of schema {SCHEMA}: {self.header.get('schema')!r}")
        self.root: str = self.header["root"]
        self.fields: dict[str, list[str]] = self.header["fields"]
        needed = {kind: {*key, *STAYS.get(kind, ())} for kind, key in KEYS.items()}
        if set(self.fields) != set(KEYS) or any(not needed[kind] <= set(names) for kind, names in self.fields.items()):
            refuse(where, "it does not say what the fields of its rows are")

    def _take(self, where: str, line: Row) -> None:
        what = line["line"]
        if what == "incarnation":
            inc = line["inc"]
            if inc in self._heads:
                refuse(where, f"incarnation {inc} is there twice")
            self._heads[inc] = (where, line)
            self.events[inc] = []
        elif what == "event":
            self._event(where, line)
        elif what == "row":
            row = self._row(line["of"], line["values"])
            key = (line["of"], self._key(line["of"], row))
            if key in self._given:
                refuse(where, f"{_name(*key)} is there twice")
            self._given[key] = (where, row, line.get("told_elsewhere") is True)
        elif what == "payload":
            if line["effect_id"] in self._payloads:
                refuse(where, f"the payload of effect {line['effect_id']} is there twice")
            self._payloads[line["effect_id"]] = (where, line)
        elif what == "missing":
            self._missing[line["inc"]] = line["why"]
            self.notes.append(f"incarnation {line['inc']} is not in it: {line['why']}")
        else:
            refuse(where, f"there is no such line as {what!r}")

    def _row(self, kind: str, values: list[Any]) -> Row:
        names = self.fields[kind]
        if len(names) != len(values):
            raise ValueError(f"a row of {kind} has {len(values)} values")
        return dict(zip(names, values))  # noqa: B905 - their lengths were compared

    def _key(self, kind: str, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in KEYS[kind])

    def _event(self, where: str, line: Row) -> None:
        inc, n = line["inc"], line["n"]
        events = self.events[inc]
        where = f"{where} (event {n} of {inc})"
        before = events[-1]["hash"] if events else FIRST_HASH
        if n != len(events) + 1:
            refuse(where, f"event {len(events) + 1} should be here: something is missing, or in another order")
        if line["prev_hash"] != before:
            refuse(where, "it does not follow the one before it")
        text = json.dumps([before, *(line[name] for name in EVENT[:8]), repr(line["at"])])
        plain = all(isinstance(line[name], str) for name in ("kind", "actor", "authority", "subject", "body"))
        if not plain or not isinstance(line["at"], float) or sha256(text.encode()).hexdigest() != line["hash"]:
            refuse(where, "it was changed after it was written: its hash is another one")
        pos = line["pos"]
        if not isinstance(pos, int) or pos in self._positions or (events and events[-1]["pos"] >= pos):
            refuse(where, f"its position {pos} in the store is not behind the one before, or is given twice")
        self._positions[pos] = where
        events.append(line)
        body = json.loads(line["body"])
        if body.get("row") is not None:
            kind, values = body["row"]
            self._became(where, pos, inc, kind, self._row(kind, values))

    def _became(self, where: str, pos: int, inc: str, kind: str, row: Row) -> None:
        key = (kind, self._key(kind, row))
        had = self._told.get(key)
        if had is not None and had[0] > pos and kind == "shared":
            return  # told by another log, later
        before = None if had is None else had[1]
        for name in STAYS.get(kind, ()) if before is not None else ():
            if before is not None and before[name] != row[name]:
                refuse(where, f"{name} of {_name(*key)} changes, which it never does")
        check = getattr(self, f"_rule_{kind}", None)
        if check is not None:
            check(where, inc, before, row)
        self._told[key] = (pos, row, where)
        self.rows[key] = row

    def _rule_task(self, where: str, inc: str, before: Row | None, row: Row) -> None:
        if row["inc"] != inc:
            refuse(where, f"the log of {inc} tells of task {row['inc']}")
        was, now = (None if before is None else before["state"]), row["state"]
        if now != was and now not in STATES.get(was, ()):
            refuse(where, f"the task becomes {now} from {was}, which cannot be")
        if before is not None and row["revision"] - before["revision"] != (1 if now != was else 0):
            refuse(where, f"the revision of the task goes from {before['revision']} to {row['revision']}")
        if now not in ("running", "completed", "failed") and ("cancellation", (inc,)) not in self.rows:
            refuse(where, f"the task is {now}, and nobody has cancelled it")
        if now == "cancelled_settled" and now != was:
            for effect in filter(_is_open, self.effects(inc)):
                refuse(where, f"the task is settled, and effect {effect['effect_id']} is not resolved")

    def _rule_cancellation(self, where: str, inc: str, before: Row | None, row: Row) -> None:
        task = self.rows.get(("task", (inc,)))
        if task is None or row["inc"] != inc:
            refuse(where, "it cancels what is not there")
        if before is None and (task["state"] != "running" or row["accepted_rev"] != task["revision"] + 1):
            refuse(where, f"it cancels a task that is {task['state']}, or at another revision")

    def _rule_effect(self, where: str, inc: str, before: Row | None, row: Row) -> None:
        name = f"effect {row['effect_id']}"
        task, cr = self.rows.get(("task", (inc,))), self.rows.get(("cancellation", (inc,)))
        if task is None or row["inc"] != inc:
            refuse(where, f"{name} is of a task that is not there")
        late = cr is not None and (before is None or row["admitted_rev"] >= cr["accepted_rev"])
        if late and row["compensates"] is None:
            refuse(where, f"{name} was admitted after the cancellation {self.rows['cancellation', (inc,)]['cr']}")
        if before is None and row["admitted_rev"] > task["revision"]:
            refuse(where, f"{name} was admitted under a revision that there was not yet")
        known = row["disposition"] in DEFINITIVE
        if known != (row["receipt_sha"] is not None):
            refuse(where, f"{name} is {row['disposition']}, and has {'no' if known else 'a'} receipt")
        if known and ("receipt", (row["effect_id"], row["receipt_sha"])) not in self.rows:
            refuse(where, f"{name} is {row['disposition']} by a receipt that is not there")
        if before is None:
            if row["phase"] != "admitted":
                refuse(where, f"{name} is {row['phase']} before it was admitted")
            return
        if before["disposition"] in (*DEFINITIVE, "suppressed") and row["disposition"] != before["disposition"]:
            refuse(where, f"{name} was {before['disposition']}, and becomes {row['disposition']}")
        if row["phase"] != before["phase"] and row["phase"] not in PHASES.get(before["phase"], ()):
            refuse(where, f"{name} becomes {row['phase']} from {before['phase']}, which cannot be")

    def _rule_receipt(self, where: str, inc: str, before: Row | None, row: Row) -> None:  # noqa: ARG002
        if is_hash(row["body_sha"]) and sha256(row["body"].encode()).hexdigest() != row["body_sha"]:
            refuse(where, f"a receipt of effect {row['effect_id']} is not the one whose hash it has")

    def effects(self, inc: str) -> list[Row]:
        """What the log of an incarnation says of its effects at last."""
        return [row for (kind, _), row in self.rows.items() if kind == "effect" and row["inc"] == inc]

    def _end(self, where: str, manifest: Row) -> None:
        for inc, (at, head) in self._heads.items():
            events = self.events[inc]
            if head["lines"] != len(events) or not events or head["head"] != events[-1]["hash"]:
                refuse(at, f"the log of {inc} does not end where its head says: lines at its end are missing")
        if manifest.get("heads") != {inc: head["head"] for inc, (_, head) in self._heads.items()}:
            refuse(where, "the manifest names other logs than there are")
        if manifest.get("schemas") != {"bundle": SCHEMA, "ledger": self.header["ledger_schema"]}:
            refuse(where, "the manifest names other schemas than the first line")
        self._compare()
        self._compare_payloads()
        self._compare_tree()

    def _compare(self) -> None:
        for key, (where, row, elsewhere) in self._given.items():
            told = self._told.pop(key, None)
            if key[0] == "shared" and elsewhere:
                if told is None or row["revision"] < told[1]["revision"]:
                    refuse(where, f"{_name(*key)} is older than the log says, or unknown to it")
                self.notes.append(f"{_name(*key)} is as another task told it")
            elif told is None:
                refuse(where, f"{_name(*key)} is among the rows, and no log tells of it")
            elif canonical(told[1]) != canonical(row):
                names = [name for name in row if canonical(row[name]) != canonical(told[1][name])]
                refuse(where, f"{_name(*key)} is not as its log says: {', '.join(names)} (told in {told[2]})")
        for key, (_, _, where) in self._told.items():
            refuse(where, f"{_name(*key)} is in the log, and not among the rows")

    def _compare_payloads(self) -> None:
        effects = {key[0]: row for (kind, key), row in self.rows.items() if kind == "effect"}
        for effect_id, (where, line) in self._payloads.items():
            row = effects.pop(effect_id, None)
            if row is None or line["sha"] != row["payload_sha"]:
                refuse(where, f"it is the payload of no effect, or of another one than {effect_id}")
            if line["body"] is None:
                if self.header["payloads"]:
                    refuse(where, f"the payload of effect {effect_id} is gone")
                continue
            body = base64.b64decode(line["body"], validate=True)
            if base64.b64encode(body).decode() != line["body"]:
                refuse(where, "it is not written as turnctl writes it")
            if is_hash(line["sha"]) and sha256(body).hexdigest() != line["sha"]:
                refuse(where, f"the payload of effect {effect_id} is not the one that was admitted")
        for effect_id in effects:
            refuse("the whole", f"the payload of effect {effect_id} is not there, nor said to be left out")

    def _compare_tree(self) -> None:
        tasks = {key[0]: row for (kind, key), row in self.rows.items() if kind == "task"}
        if set(tasks) != set(self._heads) or self.root not in tasks:
            refuse("the whole", f"the logs are not those of the tasks below {self.root}")
        children = {key[1]: key[0] for kind, key in self.rows if kind == "child"}
        for child, parent in children.items():
            if child not in tasks and child not in self._missing:
                refuse("the whole", f"the child {child} of {parent} is not there, nor said to be left out")
        for inc, task in tasks.items():
            if inc != self.root and children.get(inc) != task["parent_inc"]:
                refuse("the whole", f"incarnation {inc} does not belong to the tree of {self.root}")

    def timeline(self) -> list[str]:
        """What happened, in the order of the store; what one task's log says is proven, the order of two is not."""
        events = sorted((one for log in self.events.values() for one in log), key=lambda one: int(one["pos"]))
        return [self._told_line(one) for one in events]

    def _told_line(self, event: Row) -> str:
        body = json.loads(event["body"])
        more = [f"{name}={_short(value)}" for name, value in sorted(body.items()) if name != "row"]
        if body.get("row") is not None:
            kind, values = body["row"]
            row = self._row(kind, values)
            names = ("state", "revision", "kind", "phase", "disposition", "reason", "status", "gen", "live", "outcome")
            more = [f"{name}={_short(row[name])}" for name in names if row.get(name) is not None] + more
        who = f"by {event['actor']} ({event['authority']})"
        return " ".join(
            [_time(event["at"]), event["inc"], f"#{event['n']}", event["kind"], event["subject"], who, *more]
        )

    def __str__(self) -> str:
        task = self.rows["task", (self.root,)]
        lines = sum(len(log) for log in self.events.values())
        text = (
            f"{task['tenant']}/{task['task_id']} {self.root} is {task['state']}; {len(self.events)} logs, {lines} lines"
        )
        return "; ".join([text, *self.notes, f"fingerprint {self.fingerprint}"])


def _is_open(effect: Row) -> bool:
    return effect["disposition"] == "pending" or (effect["disposition"] == "unknown" and effect["closed_by"] is None)


def _name(kind: str, key: tuple[Any, ...]) -> str:
    return f"{kind} {'/'.join(map(str, key))}"


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")  # noqa: UP017 - old Pythons
    except (ValueError, OverflowError, OSError):
        return repr(at)


def _short(value: Any, most: int = 60) -> str:  # no name moves the cursor, or makes a line
    text = value if isinstance(value, str) else canonical(value)
    text = "".join(one if one.isprintable() else "?" for one in text)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify a bundle of turnctl, by itself.")
    parser.add_argument("file")
    parser.add_argument("--timeline", action="store_true", help="print what happened")
    parser.add_argument("--expect", metavar="SHA256", help="the fingerprint that it must have")
    args = parser.parse_args()
    try:
        with open(args.file, "rb") as file:
            data = file.read()
    except OSError as error:
        sys.stderr.write(f"{_short(args.file, 500)} cannot be read: {error.strerror or error}\n")
        return 2
    try:
        bundle = Bundle(data)
        if args.expect is not None and args.expect.lower() != bundle.fingerprint:
            refuse("the whole", f"it is another bundle than the one expected: its fingerprint is {bundle.fingerprint}")
    except Refused as error:
        sys.stdout.buffer.write(f"refused: {_short(str(error), 500)}\n".encode("utf-8", "backslashreplace"))
        return 1
    told = [f"accepted: {bundle}", *(bundle.timeline() if args.timeline else ())]
    said = "\n".join(_short(one, len(one)) for one in told)
    sys.stdout.buffer.write(f"{said}\n".encode("utf-8", "backslashreplace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
