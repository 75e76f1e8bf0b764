"""The start of bin/turnctl, run with -P -S: Ctrl-C is at its default before Python loads anything that it could strike.

Python's own handler would show where in its start-up it struck. The rest of the start-up (``site``) is done here,
afterwards; what comes before is the interpreter's core, which takes a few milliseconds.
"""

import _signal

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import site

site.main()

from turnctl.cli.main import main  # noqa: E402 - where it is, site has just found out

main()
