"""Where turns must not make trouble: forks, the end of the interpreter, plain threads, sub-interpreters, tracers."""

from __future__ import annotations

import time

import pytest
from programs import run_program

BOUND_S = 5.0
"""What is to take under 0.5 s may take this long before a test fails."""

# -- fork ---------------------------------------------------------------------------------------------------------

_IN_CHILD = """
    def in_child(fn):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            try:
                text = repr(fn())
            except BaseException as error:
                text = repr(error)
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        with open(read) as file:
            text = file.read()
        os.waitpid(pid, 0)
        return text
"""
_WARNS = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which is the point
"""


def test_forked_child_has_no_live_turn() -> None:
    """With handlers, waits and bridges in the parent, the child has no turn, no thread, and its tokens refuse."""
    code = f"""
    {_IN_CHILD}
    import select
    handling = turnctl.handle_signals(raises=False)
    turn = begun("parent")
    turn.on_cancel(print)
    waiting = threading.Thread(target=turn.token.event.wait, daemon=True)
    waiting.start()
    def child():
        return wakeup_fd(), threading.active_count(), turn.is_over, turn.cancel().kind, turnctl.current_turn()
    print(in_child(child))
    print(turn.is_over, turn.cancelled, wakeup_fd() != -1)
    """
    status, lines, err = run_program(code, first=_WARNS)

    assert (0, "") == (status, err)
    assert ["(-1, 1, True, 'refused', None)", "False False True"] == lines


@pytest.mark.parametrize("thread", ["main", "other"])
def test_signal_to_a_forked_child_is_its_own(thread: str) -> None:
    """A signal to the child does not stop the parent's turns, and stops those that the child begins."""
    code = f"""
    {_IN_CHILD}
    handling = turnctl.handle_signals(raises=False)
    turn = begun("parent")
    def child():
        try:
            press()
            time.sleep(5)
            found = "not passed on"
        except KeyboardInterrupt:
            found = "passed on"
        with turnctl.turn("child") as own:
            press()
            stopped = until(lambda: own.cancelled)
            level = own.token.level
        handling.restore()
        return found, stopped, level, own.cause, wakeup_fd(), threading.active_count()
    said = []
    fork = threading.Thread(target=lambda: said.append(in_child(child)))
    if {thread == "main"}:
        said.append(in_child(child))
    else:
        fork.start()
        fork.join()
    print(*said)
    print(turn.cancelled)
    press()
    print(until(lambda: turn.cancelled), turn.token.level)
    """
    status, lines, err = run_program(code, first=_WARNS)

    assert (0, "") == (status, err)
    assert ["('passed on', True, 'cancel', 'signal', -1, 1)", "False", "True cancel"] == lines


@pytest.mark.parametrize("where", ["before", "after_in_parent"])
def test_press_during_a_fork_counts_once(where: str) -> None:
    """While the descriptor is taken back for a fork, the handler counts: a press is neither lost nor counted twice."""
    # hooks of before run in reverse order, those of after in order: either way this is between ours
    first = _WARNS + f"import os; os.register_at_fork({where}=lambda: hook())\nhook = lambda: None\n"
    code = """
    import turnctl.signals
    handling = turnctl.handle_signals(raises=False)
    turn = begun("parent")
    hook = press
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    print(until(lambda: turn.cancelled), turn.token.level, wakeup_fd() != -1)
    """

    assert (0, ["True cancel True"], "") == run_program(code, first=first)


def test_signal_at_the_childs_first_step() -> None:
    """A signal to the child before it has let go of anything does not reach the parent's descriptor."""
    first = _WARNS + "import os; os.register_at_fork(after_in_child=lambda: hook())\n"
    code = f"""
    {_IN_CHILD}
    handled = []
    signal.signal(signal.SIGINT, lambda *_: handled.append(os.getpid()))
    handling = turnctl.handle_signals(raises=False)
    turn = begun("parent")
    hook = press
    print(in_child(lambda: handled == [os.getpid()]), turn.cancelled)
    """

    assert (0, ["True False"], "") == run_program(code, first=first)


# -- the end of the interpreter -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["returns", "sys.exit()", "raises"])
def test_exit_with_live_turns(how: str) -> None:
    """A program that ends with turns live, waits parked and bridges running exits at once, and says nothing of it."""
    ends = {"returns": "pass", "sys.exit()": "sys.exit(3)", "raises": "raise ValueError('mine')"}
    code = f"""
    turnctl.handle_signals()
    turns = [begun(f"turn-{{n}}") for n in range(20)]
    plain = threading.Event()
    adopting = turnctl.turn("adopting", event=plain)
    adopting.begin()
    for turn in turns:
        turn.on_cancel(print)
        turn.set_timeout(30)
        threading.Thread(target=lambda t=turn: t.sleep(60), daemon=True).start()
        threading.Thread(target=turn.event.wait, daemon=True).start()
        turn.bridge_fd()
        turn.bridge_event(threading.Event())
        turn.thread(turn.event.wait)
    turns[0].executor(1).submit(time.sleep, 60)
    until(lambda: all(len(t.token._grow().waiters) >= 2 for t in turns))
    print("ready", time.time(), flush=True)
    with turnctl.turn("framed"):
        {ends[how]}
    """
    status, lines, err = run_program(code)
    took = time.time() - float(lines[-1].split()[1])

    assert {"returns": 0, "sys.exit()": 3, "raises": 1}[how] == status
    assert took < BOUND_S
    assert 0 == len(lines) - 1
    if how == "raises":
        assert err.splitlines()[-1] == "ValueError: mine"
        assert 1 == err.count("Traceback")
    else:
        assert "" == err


def test_stop_from_an_exit_hook_and_a_finalizer() -> None:
    """A stop made while the interpreter goes down is recorded, and neither hangs nor complains."""
    code = """
    import atexit
    turn = begun("chat")
    late = begun("late")
    turn.on_cancel(lambda: None)
    class Thing:
        def __del__(self):
            answers.append(late.cancel())
    answers = []
    thing = Thing()
    thing.itself = thing  # left to the last collection
    kept = [late, answers]
    @atexit.register
    def stop():
        print(turn.cancel().kind, turn.cancelled, flush=True)
    """

    assert (0, ["accepted True"], "") == run_program(code)


def test_stop_wakes_what_the_interpreter_waits_for() -> None:
    """Threads that are no daemons are waited for by Python itself; a stop from the outside ends that."""
    code = """
    turnctl.handle_signals(raises=False)
    turn = begun("chat")
    def work():
        try:
            turn.sleep(60)
        except turnctl.CancelledError:
            print("stopped", flush=True)
    threading.Thread(target=work).start()
    until(lambda: turn.token._grow().waiters)
    threading.Timer(0.1, press).start()
    """
    begun = time.monotonic()
    status, lines, err = run_program(code)

    assert (0, ["stopped"], "") == (status, lines, err)
    assert time.monotonic() - begun < BOUND_S + 2


# -- plain threads ------------------------------------------------------------------------------------------------


def test_stop_that_leaves_a_plain_thread() -> None:
    """Python's own hook reports it once, the last line says what was stopped and why; the process exits as usual.

    Nothing is patched to hush it: a thread that the host started and that was stopped may well be worth a line.
    """
    code = """
    seen = []
    turn = turnctl.turn("chat", turn_id="the-turn")
    turn.begin()
    thread = threading.Thread(target=lambda: turn.sleep(60))
    thread.start()
    until(lambda: turn.token._grow().waiters)
    turn.cancel("enough")
    thread.join()
    own = threading.excepthook
    threading.excepthook = lambda args: seen.append(args.exc_type is turnctl.CancelledError)
    thread = threading.Thread(target=turn.check)
    thread.start()
    thread.join()
    turn.end()
    print(*seen)
    """
    status, lines, err = run_program(code)

    assert (0, ["True"]) == (status, lines)
    assert 1 == err.count("Traceback")
    assert err.splitlines()[-1] == "turnctl.errors.CancelledError: turn the-turn was cancelled (user): enough"


# -- sub-interpreters ---------------------------------------------------------------------------------------------


def test_import_in_a_sub_interpreter() -> None:
    """There turns work; signals are the main interpreter's, which the warning says; what needs a daemon says so."""
    inside = """
import warnings
import turnctl
with turnctl.turn("inside") as turn:
    turn.cancel("enough")
    turnctl.sleep(5)
assert turn.outcome == "cancelled", turn.outcome
assert turn.token.record.reason == "enough"
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    with turnctl.handle_signals() as handling:
        assert handling.signals == (), handling.signals
    assert ["main interpreter" in str(one.message) for one in found] == [True], found
"""
    code = f"""
    import importlib
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
            break
        except ImportError:
            pass
    one = interpreters.create()
    failed = interpreters.run_string(one, {inside!r})
    print(getattr(failed, "formatted", failed))
    interpreters.destroy(one)
    with turnctl.handle_signals():
        with turnctl.turn("outside") as turn:
            press()
            turn.sleep(5)
    print(turn.cause)
    """
    status, lines, err = run_program(code)

    assert (0, ["None", "signal"], "") == (status, lines, err)


# -- tracers ------------------------------------------------------------------------------------------------------

_TRACERS = {
    "settrace": """
    lines = []
    def tracer(frame, event, arg):
        lines.append(event)
        return tracer
    threading.settrace(tracer)
    sys.settrace(tracer)
    """,
    "setprofile": """
    lines = []
    def tracer(frame, event, arg):
        lines.append(event)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    """,
}


@pytest.mark.parametrize("tracer", sorted(_TRACERS))
def test_stop_under_a_tracer(tracer: str) -> None:
    """With a debugger's or profiler's function in place a stop, a race point and a press do as without."""
    code = f"""
    from turnctl import points
    {_TRACERS[tracer]}
    reached = []
    points.hook = reached.append
    said = []
    with turnctl.turn("waits") as turn:
        waiters = turn.token._grow().waiters
        def stop():
            until(lambda: waiters)
            turn.cancel("enough")
        threading.Thread(target=stop).start()
        turn.sleep(30)
    said.append((turn.outcome, turn.cause, "token.cancel.entered" in reached))
    def spin():
        spinning.set()
        while True:
            time.sleep(0.001)
    spinning = threading.Event()
    with turnctl.turn("calls", grace=0.1) as turn:
        def stop():
            spinning.wait(10)
            turn.cancel("enough")
        threading.Thread(target=stop).start()
        turn.call(spin, interrupt=True)
    (call,) = [one for one in turn.report.activities if one.kind == "call"]
    said.append((turn.outcome, call.state, turn.report.execution))
    for blocked in (lambda: time.sleep(30), lambda: turn.sleep(30)):
        with turnctl.handle_signals():
            with turnctl.turn("pressed") as turn:
                press()
                blocked()
        said.append((turn.outcome, turn.cause, turn.token.level, "signals.handler.entered" in reached))
    sys.settrace(None)
    sys.setprofile(None)
    for one in said:
        print(*one)
    print(len(lines) > 0)
    """

    wanted = [
        "cancelled user True",
        "cancelled cancelled ended",
        "cancelled signal cancel True",
        "cancelled signal cancel True",
        "True",
    ]

    assert (0, wanted, "") == run_program(code)
