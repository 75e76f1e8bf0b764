"""Texts of others are one line, all there, and turn nothing round."""

from __future__ import annotations

import pytest

from turnctl.spelling import visible


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
