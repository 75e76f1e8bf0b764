"""Everything that a turn can wait for, each with the same few handles, so that one test says what holds for all."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from standins import BOUND, until

import turnctl
from turnctl.waiting.descriptors import select
from turnctl.waiting.futures import as_completed
from turnctl.waiting.locks import Lock, acquire
from turnctl.waiting.queues import SimpleQueue, get
from turnctl.waiting.wait import wait
from turnctl.waiting.worker import Worker

ITEM = "item"


class Thing:
    """One thing to wait for, not ready yet."""

    #: what the wait gives when the thing is ready, and when its time is over (a value or an error)
    gives: Any = True
    gives_up: Any = False
    #: whether nothing can wake such a wait, so that it looks every 50 ms
    is_sliced = False
    #: whether who waits takes it away from others
    is_taken = False

    def wait(self, token: Any, timeout: Any = None) -> Any:
        raise NotImplementedError

    def make_ready(self) -> None:
        raise NotImplementedError

    def is_untouched(self) -> bool:
        """Whether the thing, being ready, is still there for the next one to wait for."""
        return bool(self.gives == self.wait(None, 0))

    def close(self) -> None:
        """Leave nothing behind."""


class AnEvent(Thing):
    def __init__(self) -> None:
        self.event = threading.Event()

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return wait(token, self.event, timeout)

    def make_ready(self) -> None:
        self.event.set()


class ATurnEvent(AnEvent):
    def __init__(self) -> None:
        self.event = turnctl.TurnEvent()


class AFuture(Thing):
    def __init__(self) -> None:
        self.future: Future[str] = Future()

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return wait(token, self.future, timeout)

    def make_ready(self) -> None:
        self.future.set_result(ITEM)


class Futures(AFuture):
    gives_up = TimeoutError

    @property
    def gives(self) -> Any:
        return self.future

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return next(iter(as_completed(token, [self.future], timeout)))


class AForeignFuture(AFuture):
    """A class of somebody else's, which has no condition to join."""

    def __init__(self) -> None:
        self._inner: Future[str] = Future()
        self.future = self  # type: ignore[assignment]
        self.done = self._inner.done
        self.result = self._inner.result
        self.add_done_callback = self._inner.add_done_callback

    def make_ready(self) -> None:
        self._inner.set_result(ITEM)


class APredicate(Thing):
    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.items: list[str] = []

    def wait(self, token: Any, timeout: Any = None) -> Any:
        with self.condition:
            return wait(token, lambda: self.items, timeout, on=self.condition)

    def make_ready(self) -> None:
        with self.condition:
            self.items.append(ITEM)
            self.condition.notify()


class AWorker(Thing):
    def __init__(self) -> None:
        self.gate = threading.Event()
        self.worker = Worker(None, self.gate.wait, (BOUND,), {})
        self.worker.start()

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return wait(token, self.worker, timeout)

    def make_ready(self) -> None:
        self.gate.set()
        assert self.worker.wait(BOUND)

    def close(self) -> None:
        self.make_ready()


class AThread(AWorker):
    is_sliced = True

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.thread = threading.Thread(target=self.gate.wait, args=(BOUND,), daemon=True)
        self.thread.start()

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return wait(token, self.thread, timeout)

    def make_ready(self) -> None:
        self.gate.set()
        self.thread.join(BOUND)


class APopen(Thing):
    def __init__(self) -> None:
        self.process: Any = subprocess.Popen(["sleep", "60"])

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return wait(token, self.process, timeout)

    def make_ready(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        try:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass  # whoever waits for it has seen it and asked for its status

    def close(self) -> None:
        self.process.kill()
        self.process.wait(BOUND)


def _asleep() -> None:
    signal.sigtimedwait([], 60)


class AProcess(APopen):
    def __init__(self) -> None:
        self.process = multiprocessing.get_context("fork").Process(target=_asleep, daemon=True)
        self.process.start()

    def close(self) -> None:
        self.process.kill()
        self.process.join(BOUND)
        self.process.close()


class ADescriptor(Thing):
    def __init__(self) -> None:
        self.gives_up = []
        self.read, self.write = os.pipe()
        self.gives = [self.read]

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return select(token, [self.read], timeout=timeout)

    def make_ready(self) -> None:
        os.write(self.write, b"x")

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


class AQueue(Thing):
    is_taken = True
    gives: Any = ITEM
    gives_up: Any = queue.Empty
    make: Callable[[], Any] = queue.Queue

    def __init__(self) -> None:
        self.queue: Any = type(self).make()

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return get(token, self.queue, timeout)

    def make_ready(self) -> None:
        self.queue.put(ITEM)

    def is_untouched(self) -> bool:
        return bool(self.queue.get_nowait() == ITEM)


class AStack(AQueue):
    make = queue.LifoQueue


class APriorityQueue(AQueue):
    make = queue.PriorityQueue


class OurQueue(AQueue):
    make = SimpleQueue


class AForeignQueue(AQueue):
    make = queue.SimpleQueue
    is_sliced = True


class AQueueOfProcesses(AQueue):
    make = multiprocessing.get_context("fork").Queue

    def make_ready(self) -> None:
        self.queue.put(ITEM)
        # a thread of the queue's own writes it; a waiter may have taken it by the time we look
        until(lambda: not self.queue.empty(), within=0.2)

    def is_untouched(self) -> bool:
        return bool(self.queue.get(True, BOUND) == ITEM)

    def close(self) -> None:
        self.queue.close()
        self.queue.join_thread()
        self.queue._writer.close()  # it does neither by itself if nothing was ever put
        self.queue._reader.close()


class ALock(Thing):
    is_taken = True
    make: Callable[[], Any] = Lock

    def __init__(self) -> None:
        self.lock: Any = type(self).make()
        self.lock.acquire()

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return acquire(token, self.lock, timeout)

    def make_ready(self) -> None:
        self.lock.release()

    def is_untouched(self) -> bool:
        return bool(self.lock.acquire(False))


class AConditionOnOurLock(ALock):
    make = staticmethod(lambda: threading.Condition(Lock()))  # type: ignore[arg-type]


class ASemaphore(ALock):
    make = threading.Semaphore


class ABoundedSemaphore(ALock):
    make = threading.BoundedSemaphore


class AForeignLock(ALock):
    make = threading.Lock
    is_sliced = True


class ALockOfProcesses(ALock):
    make = multiprocessing.get_context("fork").Lock
    is_sliced = True


class AnRLock(Thing):
    is_sliced = is_taken = True

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        self.held = threading.Event()
        self.gate = threading.Event()
        self.keeper = threading.Thread(target=self._keep, daemon=True)
        self.keeper.start()
        assert self.held.wait(BOUND)

    def _keep(self) -> None:
        with self.lock:
            self.held.set()
            self.gate.wait(BOUND)

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return acquire(token, self.lock, timeout)

    def make_ready(self) -> None:
        self.gate.set()
        self.keeper.join(BOUND)

    def is_untouched(self) -> bool:
        found = bool(self.lock.acquire(False))
        self.lock.release()
        return found

    def close(self) -> None:
        self.make_ready()


class ACondition(AnRLock):
    def __init__(self) -> None:
        super().__init__()
        self.condition = threading.Condition(self.lock)

    def wait(self, token: Any, timeout: Any = None) -> Any:
        return acquire(token, self.condition, timeout)


#: one of each
KINDS: list[type[Thing]] = [
    *(AnEvent, ATurnEvent, AFuture, Futures, AForeignFuture, APredicate, AWorker, AThread, APopen, AProcess),
    *(ADescriptor, AQueue, AStack, APriorityQueue, OurQueue, AForeignQueue, AQueueOfProcesses),
    *(ALock, AConditionOnOurLock, ASemaphore, ABoundedSemaphore, AForeignLock, ALockOfProcesses, AnRLock, ACondition),
]
