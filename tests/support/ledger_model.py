"""What a ledger should come to, from facts in dictionaries: no transition of the code is used, nor copied.

Where the code moves a task from state to state, this derives its state from what has been told of it, each time anew.
"""

from __future__ import annotations

from typing import Any

__all__ = ["World"]

DEFINITE = ("completed", "rejected", "provider_cancelled")


class World:
    """Tasks, effects, activities and shared work as dictionaries; each request gives the code that is to be told."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, Any]] = {}
        self.effects: dict[str, dict[str, Any]] = {}
        self.things: dict[tuple[str, str], dict[str, Any]] = {}
        self.shared: dict[str, str] = {}
        self.wants: set[tuple[str, str]] = set()

    # -- what follows from the facts ----------------------------------------------------------------

    def state(self, inc: str) -> str:
        task = self.tasks[inc]
        if task["outcome"]:
            return task["outcome"]
        if not task["cr"]:
            return "running"
        if task["settled"]:
            return "cancelled_settled"
        mine = [one for (owner, _), one in self.things.items() if owner == inc and not one["stopped"]]
        unseen = task["doing"] == "active" and task["live"] and not task["seen"]
        if unseen or (task["doing"] != "unproven" and any(not one["signalled"] for one in mine)):
            return "cancel_requested"
        below = [self.state(one) for one in self.answers_for(inc)]
        over = ("completed", "failed", "cancelled_settled")
        if (
            task["doing"] in ("active", "unproven")
            or mine
            or any(s not in (*over, "stopped_unresolved") for s in below)
        ):
            return "draining"
        if self.unresolved(inc) or any(s not in over for s in below):
            return "stopped_unresolved"
        return "cancelled_settled"

    def is_over(self, inc: str) -> bool:
        return self.state(inc) in ("completed", "failed", "cancelled_settled")

    def below(self, inc: str, *, all_of_it: bool = False) -> list[str]:
        """Children, and those below a child that was cancelled by itself and has settled."""
        found = []
        for one, task in self.tasks.items():
            if task["parent"] == inc and not task["detached"]:
                found.append(one)
                if all_of_it or self.state(one) == "cancelled_settled":
                    found += self.below(one, all_of_it=all_of_it)
        return found

    def answers_for(self, inc: str) -> list[str]:
        cr = self.tasks[inc]["cr"]
        if not cr or not (cr["subtree"] or cr["covered"]):
            return []
        return [one for one in self.below(inc) if not self.tasks[one]["unborn"]]

    def of(self, inc: str) -> list[dict[str, Any]]:
        return [one for one in self.effects.values() if one["inc"] == inc]

    def unresolved(self, inc: str) -> bool:
        return any(e["what"] == "pending" or (e["what"] == "unknown" and not e["by"]) for e in self.of(inc))

    def come_to_rest(self) -> None:
        """What a worker that is through has left undone; and what has settled stays so."""
        while True:
            before = repr(self)
            for inc in self.tasks:
                task = self.tasks[inc]
                if self.state(inc) not in ("running", "cancel_requested") and task["cr"]:
                    if task["doing"] not in ("active", "unproven"):
                        self.leave_unknown(inc)
                        self.drop_unsent(inc)
                    task["settled"] = task["settled"] or self.state(inc) == "cancelled_settled"
            if before == repr(self):
                return

    def leave_unknown(self, inc: str) -> None:
        for one in self.of(inc):
            if one["phase"] == "claimed" and not one["makes_good"]:
                one.update(phase="closed", what="unknown")

    def drop_unsent(self, inc: str) -> None:
        for one in self.of(inc):
            if one["phase"] == "admitted" and not one["makes_good"]:
                one.update(phase="suppressed", what="suppressed")

    def stop_wanting(self, inc: str) -> None:
        for who, what in sorted(self.wants):
            if who == inc:
                self.release(inc, what)

    def __repr__(self) -> str:
        return repr([self.tasks, self.effects, self.things, self.shared, sorted(self.wants)])

    # -- tasks ----------------------------------------------------------------

    def submit(self, inc: str, parent: str | None = None, *, deliver: bool = False) -> str:
        self.tasks[inc] = {
            "parent": parent,
            "deliver": deliver,
            "cr": None,
            "outcome": None,
            "settled": False,
            "detached": False,
            "gen": 0,
            "live": False,
            "drains": False,
            "seen": False,
            "doing": "idle",
            "unborn": False,
        }
        return "ok"

    def may_begin(self, inc: str, gen: int) -> str:
        """Why a worker may begin nothing, or "ok"."""
        task = self.tasks[inc]
        if task["cr"]:
            return "cancelled"
        if task["outcome"]:
            return "ended"
        if not task["live"]:
            return "no_lease"
        return "ok" if gen == task["gen"] else "stale_generation"

    def is_stale(self, inc: str, gen: int) -> str | None:
        task = self.tasks[inc]
        if not task["gen"]:
            return "no_lease"
        return None if gen == task["gen"] and task["live"] else "stale_generation"

    def take(self, inc: str, *, dead: bool, force: bool) -> str:
        task = self.tasks[inc]
        if self.is_over(inc):
            return "ended"
        if task["live"] and not (dead or force):
            return "held"
        if task["live"]:
            self.leave_unknown(inc)
            if task["cr"]:
                task["doing"] = "stop_observed" if dead else "fenced"
        if not task["cr"]:
            task["doing"] = "active"
        task.update(gen=task["gen"] + 1, live=True, drains=bool(task["cr"]), seen=bool(task["cr"]))
        return "ok"

    def acknowledge(self, inc: str, gen: int) -> str:
        stale = self.is_stale(inc, gen)
        if stale is None and self.tasks[inc]["cr"]:
            self.tasks[inc]["seen"] = True
        return stale or "ok"

    def leave(self, inc: str, gen: int, *, observed: bool) -> str:
        task, stale = self.tasks[inc], self.is_stale(inc, gen)
        if stale:
            return "ok" if observed else stale
        self.leave_unknown(inc)
        mine = [one for (owner, _), one in self.things.items() if owner == inc and not one["stopped"]]
        if observed and mine and self.state(inc) != "running":
            task["doing"] = "unproven"
        elif not task["drains"]:
            task["doing"] = "idle" if self.state(inc) == "running" else "stop_observed"
        task.update(live=False, seen=True)
        return "ok"

    def unproven(self, inc: str, gen: int) -> str:
        task = self.tasks[inc]
        if not self.is_stale(inc, gen) and task["doing"] == "active":
            task["doing"] = "unproven"
        return "ok"

    def complete(self, inc: str, gen: int, outcome: str) -> str:
        task, stale = self.tasks[inc], self.is_stale(inc, gen)
        if stale and not self.is_over(inc):
            return stale
        if task["outcome"]:
            return "already_completed" if gen == task["gen"] else "stale_generation"
        if task["cr"]:
            return "already_cancelled"
        if any(self.state(one) == "running" for one in self.below(inc)):
            return "children_open"
        self.leave_unknown(inc)
        self.drop_unsent(inc)
        self.stop_wanting(inc)
        if not any(owner == inc and not one["stopped"] for (owner, _), one in self.things.items()):
            task.update(live=False, doing="stop_observed")
        task["outcome"] = outcome
        return "ok"

    def cancel(self, inc: str, *, subtree: bool, kill: bool, covered: bool = False) -> str:
        task = self.tasks[inc]
        if self.is_over(inc) and not task["cr"]:
            return "already_completed"
        if task["cr"]:
            rises = kill and not task["cr"]["kill"]
            newly = covered and not task["cr"]["covered"]
            task["cr"]["kill"] |= kill
            task["cr"]["covered"] |= covered
            if not rises and not newly:
                return "ok"
        else:
            task["cr"] = {"subtree": subtree, "kill": kill, "covered": covered}
            self.stop_wanting(inc)
            if not task["deliver"]:
                self.drop_unsent(inc)
        if task["cr"]["subtree"] and not covered:
            for one in self.below(inc, all_of_it=True):
                if not self.is_over(one):
                    self.cancel(one, subtree=True, kill=task["cr"]["kill"], covered=True)
        return "ok"

    # -- effects ----------------------------------------------------------------

    def admit(self, inc: str, name: str, key: str, sha: str, gen: int) -> tuple[str, str]:
        code = self.may_begin(inc, gen)
        if code != "ok":
            return code, name
        for other, one in self.effects.items():
            if one["inc"] == inc and one["key"] == key:
                if one["sha"] != sha and one["what"] not in ("suppressed", "rejected"):
                    return "payload_conflict", other
                if one["phase"] == "admitted":
                    one["gen"] = gen
                    return "ok", other
                stands = {"pending": "in_flight", "unknown": "unresolved", "completed": "done"}
                if one["what"] in stands:
                    return stands[one["what"]], other
        self.effects[name] = self._effect(inc, key, sha, gen, None)
        return "ok", name

    @staticmethod
    def _effect(inc: str, key: str, sha: str, gen: int, makes_good: str | None) -> dict[str, Any]:
        about = {"inc": inc, "key": key, "sha": sha, "gen": gen, "makes_good": makes_good, "receipt": False}
        return {**about, "phase": "admitted", "what": "pending", "by": None, "late": False}

    def claim(self, name: str, gen: int, authority: str) -> str:
        effect = self.effects[name]
        task = self.tasks[effect["inc"]]
        if effect["phase"] != "admitted":
            return {"suppressed": "suppressed", "claimed": "in_flight", "closed": "closed"}[effect["phase"]]
        if authority != ("compensator" if effect["makes_good"] else "worker"):
            return "not_authorised"
        if not effect["makes_good"]:
            if not task["live"]:
                return "no_lease"
            if gen != task["gen"]:
                return "stale_generation"
            if task["drains"]:
                return "drain_only"
        effect.update(phase="claimed", gen=gen, late=bool(task["cr"]) and not effect["makes_good"])
        return "ok"

    def claim_again(self, name: str, gen: int, authority: str) -> str:
        effect = self.effects[name]
        if authority != "worker":
            return "not_authorised"
        code = self.may_begin(effect["inc"], gen)
        if code == "ok" and (effect["what"] != "unknown" or effect["by"] or effect["makes_good"]):
            code = "closed"
        if code == "ok":
            effect.update(phase="claimed", what="pending", gen=gen)
        return code

    def suppress(self, name: str, gen: int | None, authority: str) -> str:
        effect = self.effects[name]
        if effect["phase"] == "suppressed":
            return "ok"
        if authority == "worker" and gen != self.tasks[effect["inc"]]["gen"]:
            return "stale_generation"
        if effect["phase"] != "admitted":
            return "closed"
        effect.update(phase="suppressed", what="suppressed")
        return "ok"

    def close(self, name: str, said: str, gen: int | None, authority: str, *, receipt: bool) -> str:
        effect = self.effects[name]
        task = self.tasks[effect["inc"]]
        if authority == "canceller" or (authority == "compensator" and not effect["makes_good"]):
            return "not_authorised"
        if authority == "worker" and gen != task["gen"]:
            return "stale_generation"
        if effect["phase"] in ("admitted", "suppressed"):
            return "not_claimed"
        if said in DEFINITE and not receipt:
            return "no_receipt"
        sending = effect["phase"] == "claimed" and (effect["makes_good"] or task["live"])
        if authority == "reconciler" and said != "completed" and sending:
            return "in_flight"
        if effect["what"] in DEFINITE and effect["what"] != said:
            return "conflict"
        effect.update(phase="closed", what=said, receipt=effect["receipt"] or said in DEFINITE)
        return "ok"

    def decide(self, name: str, who: str, authority: str) -> str:
        effect = self.effects[name]
        if effect["what"] != "unknown" or authority != "operator":
            return "not_authorised"
        effect["by"] = who
        return "ok"

    def make_good(self, original: str, name: str, key: str, *, allowed: bool) -> str:
        effect = self.effects[original]
        if not allowed:
            return "not_authorised"
        if effect["what"] not in ("completed", "unknown"):
            return "closed"
        mine = self.of(effect["inc"])
        if any(one["makes_good"] == original for one in mine):
            return "done"
        for one in mine:
            if one["key"] == key:
                if one["phase"] == "claimed":
                    return "in_flight"
                if one["what"] in ("unknown", "completed"):
                    return {"unknown": "unresolved", "completed": "done"}[one["what"]]
        self.effects[name] = self._effect(effect["inc"], key, "s", self.tasks[effect["inc"]]["gen"], original)
        return "ok"

    # -- what else it owns ----------------------------------------------------------------

    def register(self, parent: str, inc: str, gen: int) -> str:
        code = self.may_begin(parent, gen)
        return self.submit(inc, parent, deliver=self.tasks[parent]["deliver"]) if code == "ok" else code

    def unborn(self, inc: str) -> str:
        task = self.tasks[inc]
        if task["unborn"]:
            return "ok"
        if task["gen"] or task["detached"]:
            return "conflict"
        task["unborn"] = True
        if self.state(inc) == "running":
            task["outcome"] = "failed"
        return "ok"

    def own(self, inc: str, ref: str, gen: int) -> str:
        code = self.may_begin(inc, gen)
        if code == "ok":
            self.things[inc, ref] = {"signalled": False, "stopped": False}
        return code

    def tell(self, inc: str, ref: str, what: str) -> str:
        found = self.things.get((inc, ref))
        if found is not None and not found["stopped"]:
            found[what] = True
        return "ok"

    def detach(self, inc: str, ref: str, gen: int) -> str:
        code = self.may_begin(inc, gen)
        if code == "ok":
            self.tell(inc, ref, "stopped")
            if ref in self.below(inc) and self.tasks[ref]["parent"] == inc and not self.tasks[ref]["unborn"]:
                self.tasks[ref]["detached"] = True
        return code

    def attach(self, inc: str, what: str, gen: int) -> str:
        code = self.may_begin(inc, gen)
        if code != "ok":
            return code
        if self.shared.setdefault(what, "running") != "running":
            return "ended"
        self.wants.add((inc, what))
        return "ok"

    def release(self, inc: str, what: str) -> str:
        if what not in self.shared:
            return "no_such_task"
        if (inc, what) not in self.wants:
            return "has_no_interest"
        self.wants.discard((inc, what))
        if not any(one == what for _, one in self.wants) and self.shared[what] == "running":
            self.shared[what] = "cancel_requested"
        return "ok"

    def end_shared(self, inc: str, what: str) -> str:
        if what not in self.shared:
            return "no_such_task"
        if (inc, what) not in self.wants:
            return "has_no_interest"
        self.shared[what] = "ended"
        return "ok"
