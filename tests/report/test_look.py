"""Colours can be told from paper, in the light and in the dark, and none of them carries a meaning alone."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from turnctl.report.look import DARK, DRAWING, LIGHT, PAGE, contrast
from turnctl.report.picture import Look
from turnctl.report.signs import _LINES

INKS = ("ink", "dim", "stop", *get_args(Look))


def test_contrast_is_reckoned_as_by_wcag() -> None:
    """Black on white is 21, a colour on itself 1, and a grey that is known to be just enough is that."""

    assert (21.0, 1.0) == (contrast("#000000", "#ffffff"), contrast("#123456", "#123456"))
    assert 4.48 == round(contrast("#777777", "#ffffff"), 2)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "panel", "grace"])
def test_ink_is_read_on_each_ground(colours: dict[str, str], ground: str) -> None:
    """At least 4.5 to 1, which small text needs."""

    assert {} == {ink: colours[ink] for ink in INKS if contrast(colours[ink], colours[ground]) < 4.5}


def test_each_look_has_a_sign_of_its_own() -> None:
    """Without colour they are told apart by shape."""

    assert set(get_args(Look)) == set(_LINES)
    assert len(_LINES) == len(set(_LINES.values()))


def test_both_themes_name_the_same_colours() -> None:
    """And every colour that a rule uses is one of them."""

    assert LIGHT.keys() == DARK.keys()
    assert set(re.findall(r"var\(--([a-z]+)\)", DRAWING + PAGE)) <= LIGHT.keys()
