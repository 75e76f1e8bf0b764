"""What stands in for modules that click imports: it answers as they do, and gives way to them."""

from __future__ import annotations

import inspect
import platform
import subprocess
import sys

import pytest
from launch import ROOT

from turnctl.cli.lean import _inspect, _laters


@pytest.mark.parametrize("text", ["", "one line", "  begins late ", "a\tb", "one\n    two\n    three\n", "\n\n  x\n"])
def test_texts_are_cleaned_as_ever(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Whatever a help text looks like, its indentation is taken out as by ``inspect``."""

    assert inspect.cleandoc(text) == _inspect().cleandoc(text)


def test_system_is_named_as_ever() -> None:
    """The words that ``uuid`` and ``attr`` ask for are what ``platform`` says."""
    (later,) = (one for one in _laters() if one.__name__ == "platform")

    assert (platform.system(), platform.python_implementation()) == (later.system(), later.python_implementation())


def test_real_ones_are_there_when_wanted() -> None:
    """Who asks a module that was put off for anything gets it, from any thread; later imports get the real one."""
    code = f"""
import sys, threading
sys.path.insert(0, {ROOT!r})
from turnctl.cli.lean import load_click
load_click()
import inspect, uuid, attr, attrs
from attr import validators as early
found = []
threads = [threading.Thread(target=lambda: found.append(inspect.signature)) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
import inspect as real, platform, click
@attrs.frozen
class Made:
    first: int = attrs.field(validator=attrs.validators.in_((1, 2)))
    second: int = attrs.field(default=1, validator=early.instance_of(int))
try:
    Made(3)
except ValueError:
    pass
else:
    raise AssertionError("not validated")
import attr.validators, attrs.validators as also
assert attr.validators.__file__ and also.__file__ and attr.validators.in_ is early.in_ is also.in_
assert set(found) == {{real.signature}} and len(found) == 8
assert real.__file__ and inspect.Parameter is real.Parameter
assert platform.machine() and uuid.uuid4() and click.UUID("6a3a2bd8-5ec1-4f0c-9c93-5b4d0a7f7a11", None, None)
assert real is sys.modules["inspect"]
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "") == (done.returncode, done.stderr)
