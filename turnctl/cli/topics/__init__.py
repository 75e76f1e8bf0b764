"""What ``turnctl help`` tells of besides commands: names and summaries here, texts in the modules beside it."""

from __future__ import annotations

__all__ = ["TOPICS"]

#: name: what it tells of. Each has a function in ``topics.texts`` or ``topics.words``, see ``topics.reading``.
TOPICS = {
    "config": "Where settings come from, and which is stronger.",
    "dispositions": "Words for what is known of an effect, and what each rests on.",
    "durations": "How spans of time, moments and sizes are written.",
    "env": "Variables of the environment that turnctl reads.",
    "exit-codes": "What the exit status of each command means.",
    "files": "What turnctl keeps, and where.",
    "json": "What programs are answered with, and the names of its schemas.",
    "names": "How a turn or an effect is named.",
    "output": "What goes to stdout and to stderr; colour, times, silence.",
    "signals": "What Ctrl-C and signals do to turnctl run, and to what waits.",
    "states": "Words of state, and what each claims.",
}
