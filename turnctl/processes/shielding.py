"""The shield of a command: it cannot send signals to anything that it did not start. Landlock, Linux 6.12.

Stand-alone, for a warden as well as for the host. What enters the shield never leaves it, nor does what it starts,
whatever session, group or parent it takes. Signals within it, and those to it, are as ever.

Invariants
  K1  Entering needs no privilege, and takes some: no program in the shield gains rights by set-uid or capabilities
      (``no_new_privs``), and it may not trace processes outside.
  K2  A refusal raises, in the child, before the command is loaded.

Not covered: signals that the kernel sends itself, for keys of a terminal or for timers. Nothing here blocks.
"""

import os
import sys

from turnctl.processes.kernel import call

__all__ = ["enter", "landlock_abi", "shield_refusal"]

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_WANTS_VERSION = 1
_PR_SET_NO_NEW_PRIVS = 38
#: what the rules handle of files, of networks, and what is kept inside: of these the signals alone
_SIGNALS_STAY = b"".join(word.to_bytes(8, sys.byteorder) for word in (0, 0, 2))
#: the first version that can keep signals inside
_ABI = 6


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers to this process; 0 for none, also where it may not be asked."""
    try:
        return call("syscall", _CREATE_RULESET, None, 0, _WANTS_VERSION)
    except (ImportError, OSError):
        return 0


def shield_refusal() -> str:
    """Why no command can be shielded here; empty if one can."""
    abi = landlock_abi()
    if abi >= _ABI:
        return ""
    has = f"offers version {abi}" if abi else "offers none to this process"
    return f"it needs Landlock version {_ABI} (Linux 6.12), and this kernel {has}"


def enter() -> None:
    """Have this process, which has one thread, and all that it will start, shielded. Raises ``OSError``."""
    rules = call("syscall", _CREATE_RULESET, _SIGNALS_STAY, len(_SIGNALS_STAY), 0)
    try:
        call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call("syscall", _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
