"""A shape for each way in which something can stand, so that none is told by its colour alone."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from turnctl.report.picture import Look

__all__ = ["sign", "standalone"]

#: as lines within a square from -5 to 5
_LINES: dict[Look, str] = {
    "done": "M-4 0 L-1 3.5 L4.5 -3.5",
    "failed": "M-3.5 -3.5 L3.5 3.5 M3.5 -3.5 L-3.5 3.5",
    "stopped": "M-3.5 -3.5 H3.5 V3.5 H-3.5 Z",
    "going": "M-3 -4 L4 0 L-3 4 Z",
    "unknown": "M-2.6 -2.2 A2.7 2.7 0 1 1 0.9 0.3 C0.1 0.7 0 1.1 0 1.8 M0 4.4 V4.5",
    "ended": "M0 -1 A1 1 0 1 0 0.01 -1 Z",
    "never": "M0 -4 A4 4 0 1 0 0.01 -4 Z M-2.8 2.8 L2.8 -2.8",
    "elsewhere": "M-4.5 0 H4 M0.5 -3.5 L4 0 L0.5 3.5",
}


def sign(into: Element, look: Look, x: float, y: float, *, is_over: bool = False) -> None:
    """Draw it there; ``is_over`` in the colour of paper, upon a bar."""
    name = "sign over" if is_over else "sign"
    size = " scale(0.8)" if is_over else ""
    SubElement(into, "path", {"class": name, "d": _LINES[look], "transform": f"translate({x:g} {y:g}){size}"})


def standalone(look: Look) -> Element:
    """A drawing of it alone, which says nothing to readers: the word stands beside it."""
    svg = Element("svg", {"viewBox": "-6 -6 12 12", "aria-hidden": "true", "class": f"drawing {look}"})
    sign(svg, look, 0, 0)
    return svg
