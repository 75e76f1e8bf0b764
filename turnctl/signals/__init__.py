"""Signals to stops: SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the turns of the process, or one turn."""

from turnctl.signals.ear import Placed
from turnctl.signals.stops import SignalStops, handle_signals

__all__ = ["Placed", "SignalStops", "handle_signals"]
