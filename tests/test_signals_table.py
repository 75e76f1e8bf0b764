"""The outcome table of signals, row by row, each in a process that presses by itself."""

from __future__ import annotations

import signal

import pytest
from programs import run_program

HANDLED = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]


def test_press_while_in_c_code_stops_at_once() -> None:
    """The turn is stopped while the main thread is in C code, which raises when it comes back."""
    code = """
    in_c = InC()
    with turnctl.handle_signals():
        with turnctl.turn("chat") as turn:
            def other():
                in_c.entered.wait(10)
                begun = time.monotonic()
                press()
                stopped = turn.event.wait(10)
                print(stopped, turn.cause, turn.token.reason, time.monotonic() - begun < 1)
                in_c.let_go()
            thread = threading.Thread(target=other)
            thread.start()
            in_c.block()
            print("went on")
        thread.join()
    print(turn.outcome, turn.token.level)
    """

    assert (0, ["True signal Ctrl-C True", "cancelled cancel"], "") == run_program(code)


def test_presses_while_in_c_code_are_counted() -> None:
    """Two presses while the main thread is in C code are a stop and a kill, though the handler runs once for them."""
    code = """
    in_c = InC()
    with turnctl.handle_signals(raises=False):
        with turnctl.turn("chat") as turn:
            levels = []
            def other():
                in_c.entered.wait(10)
                for wanted in ("cancel", "kill"):
                    press()
                    until(lambda: turn.token.level == wanted)
                    levels.append(turn.token.level)
                in_c.let_go()
            thread = threading.Thread(target=other)
            thread.start()
            in_c.block()
            thread.join()
            levels.append(turn.token.level)
    print(*levels)
    """

    assert (0, ["cancel kill kill"], "") == run_program(code)


def test_third_press_while_in_c_code_is_pythons_own() -> None:
    """The previous handler runs on the main thread, when that comes back from C code."""
    code = """
    from turnctl.signals import stops
    in_c = InC()
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(threading.current_thread() is threading.main_thread()))
    with turnctl.handle_signals(raises=False):
        with turnctl.turn("chat") as turn:
            def other():
                in_c.entered.wait(10)
                for wanted in ("cancel", "kill"):
                    press()
                    until(lambda: turn.token.level == wanted)
                press()
                until(lambda: stops._ears[0]._passes_on.get(signal.SIGINT))
                seen.append("back")
                in_c.let_go()
            thread = threading.Thread(target=other)
            thread.start()
            in_c.block()
            thread.join()
    print(*seen)
    """

    assert (0, ["back True"], "") == run_program(code)


def test_press_while_c_code_holds_the_interpreter() -> None:
    """It is accepted when the interpreter is free, and the record has that time."""
    code = """
    numbers = range(15_000_000)
    begun = time.monotonic()
    sum(numbers)
    usual = time.monotonic() - begun
    with turnctl.handle_signals():
        with turnctl.turn("chat") as turn:
            # a process of its own presses, since no thread of this one can
            told, tells = os.pipe()
            if os.fork() == 0:
                time.sleep(usual / 10)
                os.write(tells, repr(time.monotonic()).encode())
                os.kill(os.getppid(), signal.SIGINT)
                os._exit(0)
            begun = time.monotonic()
            sum(numbers)
            while True:
                pass
    os.wait()
    at, pressed = turn.token.record.at, float(os.read(told, 64))
    print(turn.outcome, turn.cause, at - pressed > (at - begun) / 10)
    """

    status, lines, _ = run_program(code)  # on stderr 3.12 warns of a fork beside threads

    assert (0, ["cancelled signal True"]) == (status, lines)


def test_new_turn_begins_at_the_first_press() -> None:
    """A press that comes after the turn has ended is a first one for the next turn."""
    code = """
    levels = []
    with turnctl.handle_signals():
        for _ in range(3):
            with turnctl.turn("chat") as turn:
                press()
                while True:
                    pass
            levels.append(turn.token.level)
    print(*levels)
    """

    assert (0, ["cancel cancel cancel"], "") == run_program(code)


def test_turn_inside_counts_with_the_outer_one() -> None:
    """A turn begun after the first press inside a stopped one does not put the third press off."""
    code = """
    said = []
    with turnctl.handle_signals(raises=False):
        with turnctl.turn("outer") as outer:
            press()
            with turnctl.turn("inner") as inner:
                press()
                until(lambda: outer.token.level == "kill")
                said += [outer.token.level, inner.token.level]
                try:
                    press()
                    time.sleep(5)
                except KeyboardInterrupt:
                    said.append("passed on")
    print(*said)
    """

    assert (0, ["kill kill passed on"], "") == run_program(code)


@pytest.mark.parametrize("name", HANDLED)
def test_default_is_died_of(name: str) -> None:
    """With nothing to stop, and at the third press, the default of the signal is what happens."""
    number = int(signal.Signals[name])
    prepare = f"number = {number}; signal.signal(number, signal.SIG_DFL); turnctl.handle_signals(raises=False)"
    at_once = run_program(f"{prepare}; press(number); time.sleep(5)")
    code = f"""
    {prepare}
    turn = begun("chat")
    for level in ("cancel", "kill"):
        press(number)
        print(until(lambda: turn.token.level == level), turn.token.reason, flush=True)
    press(number)
    time.sleep(5)
    """
    reason = "Ctrl-C" if name == "SIGINT" else name

    assert (-number, [], "") == at_once
    assert (-number, [f"True {reason}"] * 2, "") == run_program(code)


def test_handler_of_the_host_installed_later() -> None:
    """The host's runs instead of ours, the reader stops the turns all the same, and at the end the host's stays."""
    code = """
    ran = []
    def hosts(number, frame):
        ran.append(until(lambda: turn.cancelled))
    with turnctl.handle_signals():
        signal.signal(signal.SIGINT, hosts)
        with turnctl.turn("chat") as turn:
            press()
            turn.sleep(5)
    print(*ran, turn.cause, signal.getsignal(signal.SIGINT) is hosts)
    """

    assert (0, ["True signal True"], "") == run_program(code)


@pytest.mark.parametrize("when", ["before", "after"])
def test_handler_of_the_host_that_calls_ours(when: str) -> None:
    """A host that calls the handler it found gets one press for one signal, and the third is its own again."""
    code = f"""
    ran, said = [], []
    def before(*_):
        said.append("previous")
    signal.signal(signal.SIGINT, before)
    with turnctl.handle_signals(raises=False):
        ours = signal.getsignal(signal.SIGINT)
        def hosts(number, frame):
            {"ours(number, frame); ran.append(1)" if when == "after" else "ran.append(1); ours(number, frame)"}
        signal.signal(signal.SIGINT, hosts)
        with turnctl.turn("chat") as turn:
            for wanted in (1, 2, 3):
                press()
                until(lambda: len(ran) == wanted)
                said.append(turn.token.level)
    print(*said)
    """

    assert (0, ["cancel kill previous kill"], "") == run_program(code)


def test_descriptor_of_an_event_loop() -> None:
    """While a loop hears signals by itself the handler stops the turn; the next begin hears again."""
    code = """
    import asyncio
    said = []
    handling = turnctl.handle_signals(raises=False)
    ours = wakeup_fd()
    async def main():
        loop = asyncio.get_running_loop()
        got = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        with turnctl.turn("one") as turn:
            said.append(wakeup_fd() != ours)
            press()
            press(signal.SIGUSR1)
            await asyncio.wait_for(got.wait(), 5)
            said.append((turn.outcome, turn.cause, turn.token.level))
        loop.remove_signal_handler(signal.SIGUSR1)
        said.append(wakeup_fd())
    asyncio.run(main())
    with turnctl.turn("two"):
        said.append(wakeup_fd() == ours)
    handling.restore()
    print(*said, wakeup_fd())
    """

    assert (0, ["True (None, 'signal', 'cancel') -1 True -1"], "") == run_program(code)


def test_off_the_main_thread_it_warns_once() -> None:
    """The first call says where to call it; later ones say nothing; the program goes on."""
    code = """
    import warnings
    warnings.simplefilter("always")
    def call():
        with turnctl.handle_signals() as handling:
            print(handling.signals)
    for _ in range(3):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    """
    status, lines, err = run_program(code)

    assert (0, ["()"] * 3) == (status, lines)
    assert 1 == err.count("RuntimeWarning: signal handlers can only be set by the main thread")


@pytest.mark.parametrize("is_kernel", [True, False])
def test_jupyter_kernel_is_left_alone(is_kernel: bool) -> None:
    """In a kernel nothing is installed: its interrupt is a KeyboardInterrupt, which stops the turn."""
    code = f"""
    from types import ModuleType
    class IPKernelApp:
        @classmethod
        def initialized(cls):
            return {is_kernel}
    sys.modules["ipykernel"] = ModuleType("ipykernel")
    app = sys.modules["ipykernel.kernelapp"] = ModuleType("ipykernel.kernelapp")
    app.IPKernelApp = IPKernelApp
    for _ in range(2):
        with turnctl.handle_signals() as handling:
            try:
                with turnctl.turn("cell") as turn:
                    press()
                    turn.sleep(5)
            except KeyboardInterrupt:
                print("interrupted", end=" ")
        print(len(handling.signals), turn.outcome, turn.cause)
    """
    line = "interrupted 0 cancelled signal" if is_kernel else "0 cancelled signal"

    assert (0, [line] * 2, "") == run_program(code)


def test_one_turn_inside_all() -> None:
    """Handlers for one turn inside those for all: that one first, the others when the inner ones have no more to do."""
    code = """
    seen = []
    with turnctl.handle_signals(raises=False):
        one, two = begun("one"), begun("two")
        with turnctl.handle_signals(one, raises=False):
            for _ in range(5):
                try:
                    press()
                    seen.append((one.token.level, two.token.level))
                except KeyboardInterrupt:
                    seen.append("passed on")
    for one in seen:
        print(one)
    """
    levels = [("cancel", None), ("kill", None), ("kill", "cancel"), ("kill", "kill")]

    assert (0, [*map(str, levels), "passed on"], "") == run_program(code)


@pytest.mark.parametrize("order", ["inner first", "outer first"])
def test_restored_in_any_order(order: str) -> None:
    """Two in place: a press counts once, whichever is restored first leaves the other working, and all is put back."""
    code = f"""
    numbers = {[int(signal.Signals[name]) for name in HANDLED]}
    before = [signal.getsignal(number) for number in numbers]
    outer = turnctl.handle_signals(raises=False)
    inner = turnctl.handle_signals(raises=False)
    first, last = {"inner, outer" if order == "inner first" else "outer, inner"}
    with turnctl.turn("chat") as turn:
        press()
        until(lambda: turn.cancelled)
        print(turn.token.level)
        first.restore()
        press()
        print(until(lambda: turn.token.level == "kill"))
        try:
            press()
            time.sleep(5)
        except KeyboardInterrupt:
            print("passed on")
    last.restore()
    last.restore()
    print(before == [signal.getsignal(number) for number in numbers], wakeup_fd(), threading.active_count())
    """

    assert (0, ["cancel", "True", "passed on", "True -1 1"], "") == run_program(code)


def test_call_after_the_end_passes_on() -> None:
    """A handler of the host's that goes on calling ours after the end gets what was there before."""
    code = """
    seen = []
    def before(*_):
        seen.append("previous")
    signal.signal(signal.SIGINT, before)
    with turnctl.handle_signals():
        ours = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *given: ours(*given))
    with turnctl.turn("chat") as turn:
        press()
        until(lambda: seen)
        print(*seen, turn.cancelled)
    """

    assert (0, ["previous False"], "") == run_program(code)


def test_shield_and_pause_hold_in_the_handler() -> None:
    """The handler neither raises into a shield nor stands still in a pause of another turn's making."""
    code = """
    said = []
    other = begun("other")
    with turnctl.handle_signals(other):
        with turnctl.turn("chat") as turn:
            turn.pause()
            press()
            said.append((until(lambda: other.cancelled), turn.cancelled))
            turn.resume()
    with turnctl.handle_signals():
        with turnctl.turn("chat") as turn:
            with turn.shield(5):
                press()
                said.append(until(lambda: turn.cancelled))
                for _ in range(1000):
                    pass
                said.append("shielded")
            said.append("not reached")
    print(*said)
    """

    assert (0, ["(True, False) True shielded"], "") == run_program(code)


_TAKEN_ELSEWHERE = """
    # blocked on the main thread, so that another thread takes the signal and the wait is not interrupted
    class Interrupted(BaseException):
        pass
    def interrupt(*_):
        raise Interrupted
    signal.signal(signal.SIGUSR1, interrupt)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    main = threading.main_thread()
    def is_asleep_in(file):
        with open(f"/proc/self/task/{main.native_id}/stat") as stat:
            asleep = stat.read().rpartition(") ")[2].startswith("S")
        return asleep and sys._current_frames()[main.ident].f_code.co_filename.endswith(file)
    def other(file):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        until(lambda: is_asleep_in(file))
        press(signal.SIGUSR1)
"""


@pytest.mark.parametrize("in_turn", [True, False])
def test_command_hears_handlers_of_the_host(in_turn: bool) -> None:
    """A command's loop wakes for a handler of the host's though the wake-up descriptor is that of the ear."""
    code = f"""
    {_TAKEN_ELSEWHERE}
    from contextlib import nullcontext
    threading.Thread(target=other, args=("processes/output.py",)).start()
    with turnctl.handle_signals():
        begun = time.monotonic()
        try:
            with {"turnctl.turn('chat', grace=0)" if in_turn else "nullcontext()"}:
                turnctl.run(["sleep", "20"])
        except Interrupted:
            print("heard", time.monotonic() - begun < 10)
    """

    assert (0, ["heard True"], "") == run_program(code)


def test_wait_hears_handlers_of_the_host() -> None:
    """A wait on the main thread lets a handler of the host's run that another thread's signal has made due."""
    code = f"""
    {_TAKEN_ELSEWHERE}
    thread = threading.Thread(target=other, args=(("tokens/event.py", "turnctl/clock.py"),))
    with turnctl.handle_signals():
        with turnctl.turn("chat") as turn:
            thread.start()
            begun = time.monotonic()
            try:
                turn.sleep(20)
            except Interrupted:
                print("heard", time.monotonic() - begun < 10)
    """

    assert (0, ["heard True"], "") == run_program(code)


def test_raise_by_the_outer_handlers() -> None:
    """What the handlers for one turn pass down to those for all raises where these would have raised."""
    code = """
    with turnctl.handle_signals():
        one = begun("one")
        with turnctl.handle_signals(one):
            with turnctl.turn("two", inherit=False) as two:
                for _ in range(3):
                    press()
                time.sleep(20)
                print("went on")
    print(one.token.level, two.token.level, two.outcome)
    """

    assert (0, ["kill cancel cancelled"], "") == run_program(code)
