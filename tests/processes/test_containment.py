"""What is to hold a command: how the choice is read, and that it is never less than was asked for."""

from __future__ import annotations

import pytest

from turnctl.errors import BadArgument
from turnctl.processes.containment import read_wish
from turnctl.processes.remedies import explain

pytestmark = pytest.mark.usefixtures("wardens")


@pytest.mark.parametrize(
    ("containment", "require", "holders"),
    [
        (None, None, ("warden", "group")),
        ("auto", "complete", ("warden",)),
        ("auto", "atomic", ("cgroup", "namespace")),
        ("namespace", None, ("namespace",)),
        ("cgroup", "atomic", ("cgroup",)),
        ("warden", "complete", ("warden",)),
        ("warden", "atomic", ()),
        ("group", None, ("group",)),
        ("group", "complete", ()),
    ],
)
def test_what_is_tried(containment: object, require: object, holders: tuple[str, ...]) -> None:
    """A choice by name is tried alone; auto takes what changes the command least and satisfies the requirement."""
    assert holders == read_wish(containment, require).holders  # type: ignore[arg-type]


def test_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """TURNCTL_CONTAINMENT chooses where a call says nothing, and the call goes before it."""
    monkeypatch.setenv("TURNCTL_CONTAINMENT", "namespace")

    assert ("namespace", "TURNCTL_CONTAINMENT=namespace") == read_wish(None, None)[::2]
    assert ("warden", "containment='warden'") == read_wish("warden", None)[::2]
    assert "auto" == read_wish("auto", None).choice


@pytest.mark.parametrize("given", ["", "best", "Warden", 3, ["warden"]])
def test_unknown_word_is_refused(given: object) -> None:
    """What is no way of holding a command is told at once, with those that are."""
    with pytest.raises(BadArgument, match=r"unknown containment .*; use one of auto, namespace, cgroup, warden, group"):
        read_wish(given, None)  # type: ignore[arg-type]


def test_unknown_word_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in the environment, whose variable is named; one that is empty counts as not set."""
    monkeypatch.setenv("TURNCTL_CONTAINMENT", "best")
    with pytest.raises(BadArgument, match="unknown TURNCTL_CONTAINMENT 'best'"):
        read_wish(None, None)
    monkeypatch.setenv("TURNCTL_CONTAINMENT", "")

    assert "auto" == read_wish(None, None).choice


@pytest.mark.parametrize(
    ("step", "errno", "settings", "why", "remedy"),
    [
        ("namespace:unshare", 28, {}, "max_user_namespaces", "sysctl -w user.max_user_namespaces"),
        (
            "namespace:unshare",
            1,
            {"kernel/unprivileged_userns_clone": "0"},
            "for root alone",
            "unprivileged_userns_clone=1",
        ),
        ("namespace:map", 1, {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor", "profile with userns"),
        ("namespace:unshare", 1, {"seccomp": "2"}, "seccomp", "--privileged"),
        ("namespace:unshare", 1, {}, "may not make namespaces", ""),
        ("namespace:unshare", 22, {}, "kernel was built without", ""),
        ("namespace:proc", 22, {}, "needs /proc", "warden"),
        ("namespace:gone", 5, {}, "ended by somebody", "try again"),
        ("cgroup:none", 0, {}, "no version 2 hierarchy", "mount -t cgroup2"),
        ("cgroup:mkdir", 13, {}, "not delegated", "Delegate=yes"),
        ("cgroup:enter", 13, {}, "not delegated", "Delegate=yes"),
        ("cgroup:kill", 2, {}, "older than cgroup.kill", ""),
    ],
)
def test_refusal_is_explained(
    step: str, errno: int, settings: dict[str, str], why: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing that a machine can lack has its reason, and its remedy where there is one."""
    monkeypatch.setattr("turnctl.processes.remedies._setting", lambda name: settings.get(name, ""))
    monkeypatch.setattr("turnctl.processes.remedies._seccomp", lambda: "seccomp" in settings)
    monkeypatch.setattr("turnctl.processes.remedies._is_in_chroot", lambda: False)
    found = explain(step, errno)

    assert why in found[0]
    assert remedy in found[1]
    assert bool(remedy) == bool(found[1])
