"""What stands in for modules that click imports: it answers as they do, and gives way to them."""

from __future__ import annotations

import datetime as dt
import difflib
import gettext
import inspect
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from launch import ROOT

from turnctl.cli.lean import _datetime, _difflib, _gettext, _inspect, _laters


@pytest.mark.parametrize("text", ["", "one line", "  begins late ", "a\tb", "one\n    two\n    three\n", "\n\n  x\n"])
def test_texts_are_cleaned_as_ever(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Whatever a help text looks like, its indentation is taken out as by ``inspect``."""

    assert inspect.cleandoc(text) == _inspect().cleandoc(text)


def test_system_is_named_as_ever() -> None:
    """The words that ``uuid`` and ``attr`` ask for are what ``platform`` says."""
    (later,) = (one for one in _laters() if one.__name__ == "platform")

    assert (platform.system(), platform.python_implementation()) == (later.system(), later.python_implementation())


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("-a", ["--all", "--number", "--no-trunc"]),
        ("-a", ["--a", "--all"]),
        ("--al", ["--all", "--number"]),
        ("-abc", ["--abc", "--number", "-b", ""]),
        ("", ["", "--all"]),
        ("", []),
    ],
)
def test_close_words_are_as_ever(word: str, known: list[str]) -> None:
    """A word is as close to others as ``difflib`` says, also where that need not be asked."""
    later = _difflib()

    assert difflib.get_close_matches(word, known) == later.get_close_matches(word, iter(known))
    for n, cutoff in ((1, 0.0), (2, 0.3), (3, 1.0)):
        assert difflib.get_close_matches(word, known, n, cutoff) == later.get_close_matches(word, known, n, cutoff)
    with pytest.raises(ValueError, match="n must be > 0"):
        later.get_close_matches(word, known, 0)


def test_texts_are_as_ever_without_translations() -> None:
    """A text is itself, and one of two by the number, as by ``gettext`` where nobody has translated anything."""
    later = _gettext()

    assert gettext.gettext("no such thing") == later.gettext("no such thing")
    assert [gettext.ngettext("one", "many", n) for n in (0, 1, 2)] == [
        later.ngettext("one", "many", n) for n in (0, 1, 2)
    ]


@pytest.mark.parametrize("is_named", [True, False], ids=["by a program", "without a name"])
def test_translations_are_found(tmp_path: Path, is_named: bool) -> None:
    """A translation that a program names, or that stands where the one without a name is looked for, is used."""
    folder = tmp_path / "share" / "locale" / "xx" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / ("mine.mo" if is_named else "messages.mo")).write_bytes(_catalogue({"": "", "yes": "ja"}))
    # where it is looked for is read once, before which the place is another one here
    named = f"import gettext; gettext.textdomain('mine'); gettext.bindtextdomain('mine', {str(folder.parent.parent)!r})"
    code = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
os.environ["LANGUAGE"] = "xx"
sys.base_prefix = {str(tmp_path) if not is_named else "/nowhere"!r}
from turnctl.cli.lean import load_click
load_click()
import click
before = click.core._("yes")
{named if is_named else ""}
print(before, click.core._("yes"))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "yes ja\n" if is_named else "ja ja\n", "") == (done.returncode, done.stdout, done.stderr)


def _catalogue(texts: dict[str, str]) -> bytes:
    """A file of translations as ``msgfmt`` makes it."""
    known = sorted((a.encode() + b"\0", b.encode() + b"\0") for a, b in texts.items())
    at = 28 + 16 * len(known)
    tables, data = [b"", b""], b""
    for side in (0, 1):
        for pair in known:
            tables[side] += struct.pack("<II", len(pair[side]) - 1, at + len(data))
            data += pair[side]
    head = struct.pack("<7I", 0x950412DE, 0, len(known), 28, 28 + 8 * len(known), 0, at)
    return head + tables[0] + tables[1] + data


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="datetime itself is lean there")
def test_dates_are_as_ever() -> None:
    """What stands in for ``datetime`` has all of it, as the very same classes."""
    later = _datetime()

    assert later is not None
    assert {name: getattr(dt, name) for name in dt.__all__} == {name: vars(later)[name] for name in dt.__all__}
    assert dt.datetime_CAPI is vars(later)["datetime_CAPI"]


def test_texts_are_theirs_where_none_can_be_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of translations that this user may not read is as good as none."""

    def refuses(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    later = _gettext()
    monkeypatch.setitem(sys.modules, "gettext", later)
    monkeypatch.setattr("os.listdir", refuses)

    assert "no such thing" == later.gettext("no such thing")


def test_modules_that_are_put_off_can_be_found() -> None:
    """Who asks whether there is such a module before importing it is told that there is."""
    code = f"""
import sys, importlib.util
sys.path.insert(0, {ROOT!r})
from turnctl.cli.lean import _Later, load_click
load_click()
later = [name for name, module in sys.modules.items() if isinstance(module, _Later)]
print(len(later) > 2, all(importlib.util.find_spec(name) for name in later))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert ("True True\n", "") == (done.stdout, done.stderr)


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
import datetime, difflib, gettext, locale, pickle, tokenize, unicodedata
assert locale.setlocale and tokenize.open and unicodedata.name("a") == "LATIN SMALL LETTER A"
from datetime import *
assert gettext.find and difflib.Differ and not hasattr(datetime, "nothing")
at = datetime.strptime("2026-01-31", "%Y-%m-%d")
assert pickle.loads(pickle.dumps(at)) == at and sys.modules["datetime"].datetime is datetime
assert platform.machine() and uuid.uuid4() and click.UUID("6a3a2bd8-5ec1-4f0c-9c93-5b4d0a7f7a11", None, None)
assert real is sys.modules["inspect"]
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "") == (done.returncode, done.stderr)
