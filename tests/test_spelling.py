"""Texts of others are one line, all there, and turn nothing round."""

from __future__ import annotations

import pytest

from turnctl.spelling import in_words, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("make test", "make test"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x00\x1b[31m", r"\x00\x1b[31m"),
        ("\ud800\uffff", r"\ud800\uffff"),
        ("a\u202eb\u2028", r"a\u202eb\u2028"),
        ("עברית 日本", "עברית 日本"),
        ("\udcff\udc80.txt", r"\xff\x80.txt"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
    ],
)
def test_control_is_spelled_out(text: str, shown: str) -> None:
    """What would act on what is around it is written as an escape; letters of any script stay."""

    assert shown == visible(text)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(28, "No space left on device", "/a/b"), "No space left on device"),
        (OSError(28, "No space left on device", b"/a/b"), "No space left on device"),
        (PermissionError(13, "Permission denied", "/a/b-wal"), "/a/b-wal: Permission denied"),
        (OSError(9, "Bad file descriptor", 7), "Bad file descriptor"),
        (OSError("timed out"), "timed out"),
        (ValueError("it is cut"), "it is cut"),
        (ValueError(), "ValueError"),
    ],
)
def test_why_is_said_without_a_number(error: Exception, words: str) -> None:
    """The file stands in the message already, unless it is another one."""

    assert words == in_words(error, of="/a/b")
