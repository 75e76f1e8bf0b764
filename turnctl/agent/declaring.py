"""What a host says of a tool besides its function: looked at where the tool is defined.

Pure: nothing here blocks, and nothing of the host's is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnctl.agent.hints import Field, Shape, object_shape
from turnctl.errors import BadArgument
from turnctl.tokens.callables import check_plain

__all__ = ["check_options", "shape_told"]


def check_options(name: str, *, description: Any, parallel: Any, approval: Any) -> None:
    """Raise ``BadArgument`` for what is not what it is given as: "no" is a text, and true."""
    if not (description is None or isinstance(description, str)):
        raise BadArgument(f"the description of tool {name} is text, not {description!r}")
    if not isinstance(parallel, bool):
        raise BadArgument(f"parallel of tool {name} is True or False, not {parallel!r}")
    if callable(approval):
        check_plain(f"approval of tool {name}", approval)
    elif not isinstance(approval, bool):
        raise BadArgument(f"approval of tool {name} is True, False or a function of the arguments, not {approval!r}")


def shape_told(schema: Any, name: str) -> Shape:
    """A schema of the host's own: the names are looked at, and what the values are is the function's to say."""
    if not isinstance(schema, Mapping):
        raise BadArgument(f"the schema of tool {name} is a dict, not {schema!r}")
    if schema.get("type") != "object":
        raise BadArgument(f"the schema of tool {name} has the type object, not {schema.get('type')!r}")
    known, required = schema.get("properties", {}), schema.get("required", ())
    if not isinstance(known, Mapping) or not isinstance(required, (list, tuple)):
        raise BadArgument(f"the schema of tool {name} has properties, a dict, and required, a list of their names")
    anything = Shape({}, "anything", lambda value, _place, _problems: value)
    fields = {one: Field(anything, one in required) for one in known}
    is_open = schema.get("additionalProperties", True) is not False

    def read(value: Any, place: str, problems: list[str]) -> Any:
        if not isinstance(value, dict):
            return object_shape(fields, dict).read(value, place, problems)
        more = {one: Field(anything, required=False) for one in value if one not in fields} if is_open else {}
        return object_shape({**fields, **more}, dict).read(value, place, problems)

    return Shape(dict(schema), "an object", read)
