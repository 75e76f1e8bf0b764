"""What a child would inherit now is read as the kernel has it, for the thread that asks."""

from __future__ import annotations

import os
import resource
import signal

from standins import Background

from turnctl.processes import moment


def test_moment_is_that_of_the_process() -> None:
    """Mask of files, limits, priority and processors are the current ones."""
    umask = os.umask(0o037)
    try:
        now = moment.take()
    finally:
        os.umask(umask)

    assert 0o037 == now.umask
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == now.limits[resource.RLIMIT_NOFILE]
    assert os.nice(0) == now.nice
    assert os.sched_getaffinity(0) == set(now.processors)


def test_mask_is_that_of_the_thread() -> None:
    """Each thread has its own signal mask."""

    def blocked() -> tuple[int, ...]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGRTMIN})
        return moment.take().mask

    assert (signal.SIGUSR1, signal.SIGRTMIN) == Background(blocked).result()
    assert () == moment.take().mask


def test_key_stays_while_nothing_changes() -> None:
    """Two moments of a process that changed only what can be handed over share a launcher."""
    first = moment.take()
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        second = moment.take()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert first.key == second.key
    assert signal.SIGUSR1 in second.ignored
    assert signal.SIGUSR1 not in moment.take().ignored


def test_without_proc_the_system_is_asked() -> None:
    """Where there is no /proc the same is learned from system calls."""
    found, asked = moment.take(), moment._without_proc()

    assert (found.umask, found.mask, found.processors) == (asked.umask, asked.mask, asked.processors)
    assert set(found.ignored) == set(asked.ignored)
