"""Many commands leave nothing and make nobody grow, and a pid that is given out again is nobody's whom we knew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from commands import alive
from launch import ROOT, clean_environment
from warding import tag

pytestmark = [
    pytest.mark.gauntlet,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux"),
]
_HEAD = """
import json, os, signal, sys, threading, time
import turnctl
from turnctl.processes import upkeep
def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file: return [int(one) for one in file.read().split()]
def parent(pid):
    with open(f"/proc/{pid}/stat", "rb") as file: return int(file.read().rpartition(b")")[2].split()[1])
def size(pid):
    with open(f"/proc/{pid}/status") as file: text = file.read()
    pairs = [line.split(":") for line in text.splitlines() if line.startswith(("VmRSS", "VmData"))]
    return {name: int(value.split()[0]) for name, value in pairs}
def until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end: time.sleep(0.01)
    return condition()
"""
_MANY = """
one_by_one, at_once, tag = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def holders():
    with turnctl.popen(["sleep", "60"], capture=False) as process:
        return parent(process.pid), parent(parent(process.pid))
def warden_and_launcher():
    # asked: the warden of a command that was stopped is not used again
    done = turnctl.run(["sh", "-c", "echo $PPID"], text=True)
    return int(done.stdout), parent(int(done.stdout))
def state():
    warden, launcher = warden_and_launcher()
    until(lambda: [warden] == children(launcher))
    return {
        "warden": warden, "launcher": launcher, "wardens": len(children(launcher)),
        "sizes": [size(warden), size(launcher)],
        "files": [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", warden, launcher)],
        "threads": threading.active_count(), "children": children(os.getpid()),
    }
for _ in range(20): turnctl.run(["true"])
before = state()
for _ in range(one_by_one): assert turnctl.run(["true"]).returncode == 0
middle = state()
held = []
with turnctl.turn(grace="200ms") as turn:
    for _ in range(at_once): held.append(turn.popen(["sleep", tag], capture=False))
    running = sum(one.poll() is None for one in held)
ended = [one.outcome().empty_proven for one in held]
del held
after = state()
print(json.dumps({"before": before, "middle": middle, "after": after, "running": running, "proven": sum(ended)}))
"""


def _program(code: str, *args: str, before: tuple[str, ...] = (), within: float) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", _HEAD + code, *args],
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
        env=clean_environment(PYTHONPATH=ROOT),
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize(
    ("one_by_one", "at_once"),
    [
        (100, 30),
        pytest.param(1000, 200, marks=[pytest.mark.stress, pytest.mark.timeout(600)]),
    ],
)
def test_many_commands_leave_nothing(one_by_one: int, at_once: int) -> None:
    """No process, descriptor, thread or zombie is left, and launcher and warden are no larger than before."""
    mark = tag()
    said: dict[str, Any] = json.loads(_program(_MANY, str(one_by_one), str(at_once), mark, within=500))
    before, middle, after = said["before"], said["middle"], said["after"]

    assert (at_once, at_once) == (said["running"], said["proven"])
    assert [] == alive(mark)
    for now in (middle, after):
        assert before["files"][0] == now["files"][0]
        assert before["files"][2] == now["files"][2]
        assert (before["launcher"], 1, before["threads"], before["children"]) == (
            now["launcher"],
            now["wardens"],
            now["threads"],
            now["children"],
        )
    # the very same warden served them all, one after the other, with the memory that it had
    assert (before["warden"], before["files"], before["sizes"][0]["VmData"]) == (
        middle["warden"],
        middle["files"],
        middle["sizes"][0]["VmData"],
    )
    for was, now in zip(before["sizes"], middle["sizes"], strict=True):
        assert now["VmRSS"] - was["VmRSS"] <= 256
    # many wardens at one time are noted by the launcher in a table that Python does not give back
    assert after["sizes"][1]["VmRSS"] - before["sizes"][1]["VmRSS"] <= 1024


# -- numbers that are given out again ----------------------------------------------------------------------------------

#: run in a pid namespace of its own, as a child of its first process
_WRAP = """
def give_out(number):
    'Have the kernel give out this number next.'
    with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write(str(number - 1))
def stranger(number):
    'A process of ours, no part of any command, that has this number; it notes each signal that it is sent.'
    out, there = os.pipe()
    for _ in range(50):  # others fork as well, and one that is gone again may have had the number in between
        give_out(number)
        pid = os.fork()
        if pid == 0 or pid == number: break
        os.kill(pid, 9); os.waitpid(pid, 0)
    if pid == 0:
        if os.getpid() != number: signal.pause()
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.write(there, b"on")
        while True: os.write(there, b" %d" % signal.sigwait(signal.valid_signals()))
    assert os.read(out, 2) == b"on"
    os.set_blocking(out, False)
    def end():
        gone = os.waitpid(pid, os.WNOHANG) != (0, 0)
        try: noted = os.read(out, 4096).decode()
        except BlockingIOError: noted = ""
        if not gone: os.kill(pid, 9); os.waitpid(pid, 0)
        return [pid == number, gone, noted]
    return end
def shot(*numbers):
    def note(number, frame): noted.append(number)
    for one in numbers: signal.signal(one, note)
noted = []
shot(signal.SIGTERM, signal.SIGCONT, signal.SIGHUP)  # to ourselves or our group
containment = sys.argv[1]
said = {}

# 1 a leftover that has ended, reaped, and whose number somebody else has
with turnctl.turn(grace="100ms") as turn:
    line = "sleep 60 & echo $!; wait $!; echo ended; sleep 60 & echo on; wait"
    process = turn.popen(line, shell=True, text=True, containment=containment)
    lines = iter(process)
    number = int(next(lines))
    os.kill(number, 15)
    next(lines); next(lines)  # the next one has its number
    until(lambda: not os.path.exists(f"/proc/{number}"))
    end = stranger(number)
said["member"] = end()

# 2 the main process: ended and over, its number with somebody else, who leads a group of that number
process = turnctl.popen(["true"], containment=containment)
number = process.pid
process.wait(); process.outcome()
until(lambda: not os.path.exists(f"/proc/{number}"))
end = stranger(number)
process.stop(); process.kill()
said["main"] = end()

# 3 the whole table comes round while a command runs, again and again
with turnctl.turn(grace="100ms") as turn:
    process = turn.popen("for n in 1 2 3; do setsid sleep 60 & done; echo on; wait", shell=True, text=True,
                         containment=containment)
    next(iter(process))
    strangers = []
    with open("/proc/sys/kernel/pid_max") as file: last = int(file.read())
    give_out(last - 5)
    for _ in range(20): os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    with open("/proc/self/task/%d/children" % os.getpid()) as file: file.read()
    said["came round"] = os.posix_spawn("/bin/true", ["true"], {}) < 5000
    os.wait()

def argv(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file: return file.read().split(chr(0))[:-1]
    except OSError: return []
def lives(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file: return b"(sleep) Z" not in file.read()
    except OSError: return False
said["left"] = [name for name in os.listdir("/proc") if name.isdigit() and "sleep" in argv(name) and lives(name)]

# 4 the same between two looks, while the last of a session hands it on: by its number alone nobody can tell whose it is
from turnctl.testing import call_at
heir = ("import os, signal\\nheir = lambda *_: (os.posix_spawn('/bin/sleep', ['sleep', '60.5'], {}), os._exit(0))\\n"
        "signal.signal(15, heir); print('on', flush=True)\\nwhile True: signal.pause()")
line = 'setsid "$0" -c "$1" & wait'
def heirs(): return [int(name) for name in os.listdir("/proc") if name.isdigit() and argv(name) == ["sleep", "60.5"]]
def all_in(session):
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", "rb") as file: field = file.read().rpartition(b")")[2].split()
            if name.isdigit() and int(field[3]) == session: found.append(int(name))
        except OSError: pass
    return found
def come_round():
    # it is alone: anybody known from before, a zombie too, would still prove the number
    assert until(lambda: len(heirs()) == 1 and all_in(os.getsid(heirs()[0])) == heirs())
    give_out(last - 5)
    for _ in range(20): os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
with turnctl.turn(grace="300ms") as turn, call_at("processes.ladder.asked", come_round):
    process = turn.popen(["sh", "-c", line, sys.executable, heir], text=True, containment=containment)
    next(iter(process))
    turn.stop()
    process.outcome()
    until(lambda: process.poll() is not None)
outcome = process.outcome()
said["heirs"] = [len(heirs()), outcome.empty_proven, sum("left alone" in note for note in outcome.notes)]
for pid in heirs(): os.kill(pid, 9)

said["ourselves"] = noted
print(json.dumps(said), flush=True)
"""


def _can_choose_numbers() -> str:
    if shutil.which("unshare") is None:
        return "there is no unshare"
    if os.getuid() != 0:
        return "only root can have a pid namespace whose next number it chooses"
    probe = "echo 300 > /proc/sys/kernel/ns_last_pid && exec sh -c 'true'"
    done = subprocess.run(["unshare", "-pf", "--mount-proc", "sh", "-c", probe], capture_output=True, check=False)
    return "" if done.returncode == 0 else f"the next number cannot be chosen here: {done.stderr.decode()}"


@pytest.mark.parametrize("containment", ["warden", "group"])
def test_no_signal_for_a_number_given_out_again(containment: str) -> None:
    """Who was given the number of a process or group that has ended is not signalled; nor are we, nor process 1."""
    if why := _can_choose_numbers():
        pytest.skip(why)
    # the first process of the namespace is a shell, which would end its loop if it were sent anything
    first = ("unshare", "-pf", "--mount-proc", "sh", "-c", 'trap "echo struck" TERM HUP INT; "$@"; exit $?', "sh")
    said = json.loads(_program(_WRAP, containment, before=first, within=60))

    assert [True, False, ""] == said["member"]
    assert [True, False, ""] == said["main"]
    assert said["came round"]
    assert [] == said["ourselves"]
    assert [] == said["left"]
    # best effort does not claim it, and says whom it has left alone
    assert ([0, True, 0] if containment == "warden" else [1, False, 1]) == said["heirs"]
