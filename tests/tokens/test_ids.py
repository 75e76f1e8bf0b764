"""Turn ids are short, sortable by time, and never come twice."""

from __future__ import annotations

import os

import pytest
from standins import Background

from turnctl.tokens.ids import check_name, new_turn_id


def test_ids_are_never_the_same() -> None:
    """Many threads make many ids, all different."""
    makers = [Background(lambda: [new_turn_id() for _ in range(5_000)]) for _ in range(4)]
    made = [one for maker in makers for one in maker.result()]

    assert len(made) == len(set(made))


def test_ids_are_short_and_safe_to_type() -> None:
    """Fifteen characters, none of which is mistaken for another."""
    for _ in range(100):
        made = new_turn_id()

        assert 15 == len(made)
        assert made.startswith("t")
        assert not set(made[1:]) & set("ilou ABC-_/")


def test_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of a later millisecond comes later."""
    now = [1_750_000_000.0]
    monkeypatch.setattr("turnctl.tokens.ids.time.time", lambda: now[0])
    made = []
    for _ in range(50):
        made.append(new_turn_id())
        now[0] += 0.0011

    assert sorted(made) == made


def test_forked_child_makes_other_ids() -> None:
    """Two processes that go on from the same state do not make the same ids."""
    new_turn_id()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        os.write(write, "".join(new_turn_id()[-6:] for _ in range(5)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    ours = "".join(new_turn_id()[-6:] for _ in range(5))

    assert len(ours) == len(theirs)
    assert ours != theirs


@pytest.mark.parametrize(("name", "right"), [("chat-42", True), ("", False), (None, False), (3, False), (b"x", False)])
def test_name_is_a_text_that_is_not_empty(name: object, right: bool) -> None:
    """What may name a session or a turn."""
    assert right is check_name(name)
