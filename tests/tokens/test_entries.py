"""What a log means follows from the order of its entries alone."""

from __future__ import annotations

from examples import given
from hypothesis import strategies as st

from turnctl.records.stops import LEVELS
from turnctl.tokens.entries import Entry, Parts, Retirement, Stop, adds, answer, derive, outcome_of, read

stops = st.builds(
    Stop,
    cause=st.just("user"),
    level=st.sampled_from(["soft", "cancel", "kill"]),
    at=st.just(0.0),
    wall_at=st.just(0.0),
    grace_s=st.none() | st.floats(0, 9),
)
retirements = st.sampled_from(["completed", "failed", "cancelled", "superseded"]).map(Retirement)  # type: ignore[arg-type]
logs = st.lists(stops | retirements | st.builds(Parts), max_size=6)


def effective(log: list[Entry]) -> list[Stop]:
    """The stops before the first retirement, told in another way than the product does."""
    ends = [i for i, entry in enumerate(log) if isinstance(entry, Retirement)]
    return [entry for entry in log[: ends[0] if ends else None] if isinstance(entry, Stop)]


@given(logs)
def test_only_stops_before_the_end_count(log: list[Entry]) -> None:
    """First stop, highest level and least grace are those before the first retirement (T1, T2)."""
    stops = effective(log)
    ends = [entry for entry in log if isinstance(entry, Retirement)]
    first, level, grace, end = read(log)

    assert (stops[0] if stops else None) is first
    assert max((LEVELS[s.level] for s in stops), default=0) == level
    assert min((s.grace_s for s in stops if s.grace_s is not None), default=None) == grace
    assert (ends[0] if ends else None) is end


@given(logs)
def test_each_request_in_a_log_has_the_answer_of_its_place(log: list[Entry]) -> None:
    """The first stop is accepted, later ones are told of it, those behind the end that it had ended."""
    counting = effective(log)
    for stop in [entry for entry in log if isinstance(entry, Stop)]:
        found = answer(log, stop, "t", "s")
        if stop in counting:
            assert ("accepted" if stop is counting[0] else "already_cancelled") == found.kind
            assert counting[0].record is found.record
        else:
            outcome = outcome_of(counting[0] if counting else None, next(e for e in log if isinstance(e, Retirement)))
            expected = ("refused", "retired") if outcome == "superseded" else ("already_ended", None)
            assert expected == (found.kind, found.why)
            assert outcome == found.outcome
        assert ("t", "s") == (found.turn_id, found.session_id)


@given(logs, stops)
def test_a_request_that_adds_nothing_changes_nothing(log: list[Entry], stop: Stop) -> None:
    """What is not worth an entry would have left level and grace as they were."""
    first, level, grace, end = read(log)
    if first is not None and end is None and not adds(stop, level, grace):
        assert (first, level, grace) == read([*log, stop])[:3]


def test_record_of_a_child_names_where_it_came_from() -> None:
    """The derived records have cause ``parent``, keep who and why and the parent's record, and each its own time."""
    stop = Stop("user", "cancel", 1.0, 2.0, "why", "who", 3.0)
    later = Stop("user", "kill", 4.0, 5.0, "now", "she", 0.5)
    found = [one.record for one in derive([Parts(), stop, later], "t1")]

    assert [("parent", "cancel", 1.0, 2.0, "why", "who", 3.0), ("parent", "kill", 4.0, 5.0, "why", "who", 0.5)] == [
        (one.cause, one.level, one.at, one.wall_at, one.reason, one.by, one.grace_s) for one in found
    ]
    assert {"t1"} == {one.source for one in found}
    assert all(one.origin is stop.record for one in found)


@given(logs)
def test_what_is_derived_says_the_same(log: list[Entry]) -> None:
    """Whoever reads the derived entries alone finds the level and the grace that count above."""
    first, level, grace, _ = read(log)
    found = read([*derive(log, None)])

    assert (first is None, level, grace) == (found[0] is None, found[1], found[2])
