"""A topic as plain values, and its forms for people and for programs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from turnctl.cli.pages.model import Rows, objects
from turnctl.cli.pages.plain import paragraphs, section
from turnctl.cli.topics import TOPICS

__all__ = ["SCHEMA", "Part", "as_dict", "as_text", "parts_of"]

SCHEMA = "turnctl.topic/1"

#: a paragraph; or a table: its title, and words with what they mean
Part = str | tuple[str, Rows]

#: where a text is that is made from the code's own values; the others are in ``topics.texts``
_MADE = {"dispositions": "words", "env": "variables", "exit-codes": "statuses", "json": "words", "states": "words"}


def parts_of(name: str) -> list[Part]:
    """What there is to say. Loads what it is derived from, which for some is every command."""
    module = import_module(f"turnctl.cli.topics.{_MADE.get(name, 'texts')}")
    parts: list[Part] = getattr(module, name.replace("-", "_"))()
    return parts


def as_text(name: str, parts: list[Part], width: int) -> str:
    """For a terminal."""
    shown = [paragraphs([part], width) if isinstance(part, str) else section(*part, width) for part in parts]
    return "\n".join([f"{TOPICS[name]}\n", *shown])


def as_dict(name: str, parts: list[Part]) -> dict[str, Any]:
    """For programs, schema ``turnctl.topic/1``."""
    return {
        "schema": SCHEMA,
        "name": name,
        "summary": TOPICS[name],
        "parts": [
            {"text": part} if isinstance(part, str) else {"title": part[0], "rows": objects(part[1])} for part in parts
        ],
    }
