"""What is on record of a turn, made up: facts for the drawing, with the lines of a log that go with them."""

from __future__ import annotations

from typing import Any

from turnctl.report.facts import Facts

#: when it began: 2026-11-30T12:00:00Z
START = 1796040000.0
TURN = "t2nnepwyyyqp6ma"
ACTOR = f"turn {TURN} of process 77"


class Sketch:
    """Facts of one turn; times are seconds after its begin."""

    def __init__(self, *, turn_id: str = TURN) -> None:
        self.turn_id = turn_id
        self.lines: list[tuple[float, int, dict[str, Any]]] = []
        self.activities: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self.processes: list[dict[str, Any]] = []
        self._stop: tuple[float, str, str | None] | None = None
        self.line("turn.begun", 0.0, turn_id)

    def line(self, kind: str, at: float, subject: str, *, actor: str = ACTOR, row: list[Any] | None = None) -> None:
        """A line of the log."""
        event = {
            "at": START + at,
            "kind": kind,
            "actor": actor,
            "authority": "worker" if actor == ACTOR else "canceller",
            "read_only": False,
            "subject": subject,
            "body": {} if row is None else {"row": row},
            "hash": "0" * 64,
        }
        self.lines.append((at, len(self.lines), event))

    def activity(
        self,
        kind: str,
        name: str,
        begin: float,
        end: float | None,
        *,
        detail: str | None = "completed",
        pid: int | None = None,
        sent: tuple[tuple[str, float], ...] = (),
        severed: bool = False,
        stopped: bool | None = None,
    ) -> None:
        ref = f"a-{len(self.activities):032x}"
        words = " ".join(word for word, _ in sent) or None
        self.activities.append(
            {
                "ref": ref,
                "kind": kind,
                "name": name,
                "process": pid,
                "begun_at": START + begin,
                "signal": words,
                "signalled_at": START + sent[0][1] if sent else None,
                "evidence": None,
                "stopped": end is not None and not severed if stopped is None else stopped,
                "severed": severed,
                "ended_at": None if end is None else START + end,
                "detail": None if end is None else detail,
            }
        )
        self.line("activity.registered", begin, ref)
        for n, (_, at) in enumerate(sent, 1):
            so_far = " ".join(word for word, _ in sent[:n])
            values = ["i", ref, kind, name, 1, None, START + begin, so_far, START + sent[0][1], None, 0, 0, None, None]
            self.line("activity.signalled", at, ref, row=["activity", values])
        if end is not None:
            self.line("activity.stopped", end, ref)

    def process(
        self,
        pid: int,
        command: str,
        begin: float,
        end: float | None,
        *,
        started: float = 0.0,
        returncode: int = 0,
        detail: str = "completed: exit status 0",
        sent: tuple[tuple[str, float], ...] = (),
        survivors: tuple[dict[str, Any], ...] = (),
    ) -> None:
        """A command; ``started`` is how long after its row it ran."""
        self.activity("process", command, begin, end, detail=detail, pid=pid, sent=sent)
        if end is None:
            return
        self.processes.append(
            {
                "pid": pid,
                "argv": command.split(),
                "returncode": returncode,
                "signal": -returncode if returncode < 0 else None,
                "signals": [
                    {"signal": word, "after_s": at - begin - started, "scope": "group", "pid": pid} for word, at in sent
                ],
                "ended": 1,
                "killed": int(returncode == -9),
                "survivors": list(survivors),
                "duration_s": end - begin - started,
                "containment": "complete",
                "held_by": "warden",
                "empty_proven": not survivors,
                "notes": [],
            }
        )

    def effect(
        self, kind: str, key: str, begin: float, end: float | None, disposition: str = "completed", **more: Any
    ) -> None:
        effect_id = f"e-{len(self.effects):032x}"
        is_told = disposition in ("completed", "rejected", "provider_cancelled")
        phase = {"suppressed": "suppressed", "pending": "claimed"}.get(disposition, "closed")
        self.effects.append(
            {
                "schema": "turnctl.effect/1",
                "effect_id": effect_id,
                "turn_id": self.turn_id,
                "inc": "i-1",
                "kind": kind,
                "key": key,
                "phase": phase,
                "disposition": disposition,
                "is_unresolved": disposition == "unknown",
                "consequence": "medium",
                "escalation": "notify" if disposition == "unknown" else None,
                "adapter": None,
                "request_ref": None,
                "reconcilable": False,
                "after_cutoff": False,
                "closed_by": None,
                "compensates": None,
                "admitted_rev": 1,
                "admitted_at": "2026-11-30T12:00:00.000Z",
                "payload": {"sha256": "0" * 64, "bytes": 5},
                "receipt": {"source": "plain", "body": f"msg-{key}"} if is_told else None,
                "at": START + begin,
                **more,
            }
        )
        self.line("effect.admitted", begin, effect_id)
        if end is not None:
            self.line(f"effect.{disposition}", end, effect_id)

    def stop(self, at: float, *, by: str = "ana", reason: str | None = "wrong repo") -> None:
        self._stop = (at, by, reason)
        self.line("cancel.accepted", at, "cr-1", actor=by)

    def facts(
        self,
        end: float | None,
        *,
        state: str = "completed",
        outcome: str | None = "completed",
        execution: str = "ended",
        lost: str | None = None,
        seen: float | None = None,
        command: list[str] | None = None,
        name: str | None = "weekly mail",
        grace_s: float | None = None,
        stop_took_s: float | None = None,
        has_report: bool = True,
        in_order_of_time: bool = True,
        attempts: tuple[dict[str, Any], ...] = (),
    ) -> Facts:
        """All of it, with a turn that ended then; None for one that has not."""
        if end is not None:
            self.line("turn.ended", end, self.turn_id)
        if in_order_of_time:
            self.lines.sort(key=lambda one: one[:2])
        stop = self._stop
        counts: dict[str, int] = {}
        for one in self.effects:
            counts[one["disposition"]] = counts.get(one["disposition"], 0) + 1
        return Facts(
            turn={
                "schema": "turnctl.turn-line/1",
                "turn_id": self.turn_id,
                "session_id": "build",
                "name": name,
                "command": command,
                "folder": "/srv/app",
                "task": {"tenant": "acme", "task_id": "job-7", "inc": "i-1"},
                "state": state,
                "outcome": outcome,
                "started_at": "2026-11-30T12:00:00.000Z",
                "ended_at": None if end is None else "2026-11-30T12:00:05.000Z",
                "intent": {
                    "cancel_requested": stop is not None,
                    "by": None if stop is None else stop[1],
                    "reason": None if stop is None else stop[2],
                    "at": None if stop is None else "2026-11-30T12:00:04.000Z",
                },
                "execution": {"state": execution, "pid": 77, "processes": 0, "lost": lost},
                "effects": {"unresolved": counts.get("unknown", 0), "dispositions": counts},
            },
            task={
                "revision": 2,
                "promise": "no-new-actions",
                "policy": "suppress",
                "execution": "idle",
                "state": "running",
                "seq": 1,
            },
            begun_at=START,
            ended_at=None if end is None else START + end,
            seen_at=START + (seen if seen is not None else (end or 0.0) + 60.0),
            activities=tuple(self.activities),
            effects=tuple(self.effects),
            events=tuple({"n": n, **event} for n, (_, _, event) in enumerate(self.lines, 1)),
            attempts=attempts,
            report=self._report(end, state, execution, grace_s, stop_took_s)
            if has_report and end is not None
            else None,
        )

    def _report(
        self, end: float, state: str, execution: str, grace_s: float | None, stop_took_s: float | None
    ) -> dict[str, Any]:
        stop = self._stop
        record = None
        if stop is not None:
            record = {"cause": "user", "level": "cancel", "reason": stop[2], "by": stop[1], "at": START + stop[0]}
            stop_took_s = end - stop[0] if stop_took_s is None else stop_took_s
        return {
            "schema": "turnctl.turn/1",
            "state": state,
            "started_at": START,
            "ended_at": START + end,
            "intent": {"cancel_requested": stop is not None, "level": record and "cancel", "record": record},
            "execution": {"state": execution, "alive": [], "stop_took_s": stop_took_s, "grace_s": grace_s},
            "activities": [],
            "processes": self.processes,
            "notes": [],
            "summary": f"{state}: the summary",
        }


def completed() -> Facts:
    """A small one that went well: a call, a command, an effect."""
    made = Sketch()
    made.activity("call", "openai chat", 0.5, 2.0)
    made.process(4121, "make test", 2.0, 4.5, started=0.5)
    made.effect("mail.send", "to bob", 4.5, 4.75)
    return made.facts(5.0)


def stopped() -> Facts:
    """One that was stopped after 4 s, with something of each kind."""
    made = Sketch()
    made.activity("call", "openai chat", 0.5, 2.0)
    made.activity("stream", "claude", 2.0, 4.25, detail="cancelled: by the user")
    made.activity("thread", "deaf one", 1.0, 5.0, detail="abandoned: it did not come back")
    made.activity("http", "POST api", 3.0, None, severed=True)
    made.stop(4.0)
    made.process(
        4121,
        "sh -c 'sleep 99'",
        1.0,
        4.75,
        started=0.25,
        returncode=-9,
        detail="cancelled: stopped: ended by SIGKILL",
        sent=(("SIGTERM", 4.0), ("SIGKILL", 4.75)),
    )
    made.effect("mail.send", "to ana", 0.5, 1.0)
    made.effect("mail.send", "to bob", 1.5, None, "unknown")
    made.effect("pay.charge", "17", 3.0, 3.5, "rejected")
    made.effect("mail.send", "to eve", 3.5, 4.0, "suppressed")
    return made.facts(5.0, state="stopped, effects unresolved", outcome="cancelled", grace_s=0.75)


HOSTILE = (
    "</script><img src=x onerror=alert(1)>]]>--> & \" ' ``` | @bob #12 [x](y) \x00\x08\x1b[31m\ud800\ufffe\u202e\u2028"
    "\r\n 日本語 עברית عربى"
)


def hostile() -> Facts:
    """Everything that others may have named has a name that tries to be something else."""
    made = Sketch()
    made.activity("call", HOSTILE, 0.1, 0.5, detail=f"failed: {HOSTILE}")
    made.activity("process", HOSTILE + " x" * 5000, 0.2, 0.9, pid=4121)
    made.effect(HOSTILE, HOSTILE, 0.3, None, "unknown")
    made.stop(0.8, by=HOSTILE, reason=HOSTILE)
    return made.facts(1.0, state="stopped, effects unresolved", outcome="cancelled", command=[HOSTILE], name=HOSTILE)
