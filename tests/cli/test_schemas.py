"""The schemas that come with turnctl: each is one, is named after what it is of, and is the one that the code names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from schemas import SCHEMAS

import turnctl

CODE = Path(turnctl.__file__).parent
#: these are records of the SDK, and the bundle; their own pages say what is in them
ELSEWHERE = {"turnctl.diagnosis/1", "turnctl.turn/1", "turnctl.task/1", "turnctl.bundle/1"}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_is_a_schema_of_its_name(name: str) -> None:
    """The file, the title and what an object of it names are the same."""
    schema = SCHEMAS[name]
    title = f"turnctl.{name.removesuffix('.json').rpartition('-')[0]}/{name.removesuffix('.json').rpartition('-')[2]}"

    Draft202012Validator.check_schema(schema)
    assert title == schema["title"]
    if "schema" in schema["properties"]:
        assert title == schema["properties"]["schema"]["const"]
        assert "schema" in schema["required"]


def test_every_name_in_the_code_has_its_schema() -> None:
    """No object that the command line or a checkpoint gives names a schema that does not come with it."""
    named = set()
    for file in CODE.rglob("*.py"):
        named |= set(re.findall(r"\"(turnctl\.[a-z-]+/\d+)\"", file.read_text("utf-8")))

    assert set() == named - {one["title"] for one in SCHEMAS.values()} - ELSEWHERE
