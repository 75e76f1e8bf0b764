"""Holding JSON against the schemas that come with turnctl."""

from __future__ import annotations

import json
from datetime import datetime
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource


def _all() -> dict[str, Any]:
    folder = files("turnctl.schemas")
    return {one.name: json.loads(one.read_text("utf-8")) for one in folder.iterdir() if one.name.endswith(".json")}


_FORMATS = FormatChecker(())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_moment(text: object) -> bool:
    """RFC 3339 in UTC, as turnctl writes it."""
    return not isinstance(text, str) or (text.endswith("Z") and bool(datetime.fromisoformat(text)))


SCHEMAS = _all()
_REGISTRY: Any = Registry().with_resources([(name, Resource.from_contents(one)) for name, one in SCHEMAS.items()])


def fits(value: Any) -> Any:
    """``value``, which fits the schema that it names; raises where it does not, or names none."""
    by_title = {one["title"]: one for one in SCHEMAS.values()}
    schema = by_title[value["schema"]]
    Draft202012Validator(schema, registry=_REGISTRY, format_checker=_FORMATS).validate(value)
    return value
