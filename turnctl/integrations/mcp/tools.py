"""Tools: plain functions, what is said of them to a client, and what they return as a result of MCP."""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnctl.errors import BadArgument
from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.incoming import INVALID_PARAMS
from turnctl.integrations.mcp.serving import Request
from turnctl.tokens.callables import check_plain
from turnctl.tokens.ids import check_name

__all__ = ["Tool", "arguments_of", "is_of_a_loop", "made_of", "result_of"]

_KINDS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


class Tool:
    """One function that clients may call."""

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str | None,
        description: str | None,
        schema: Mapping[str, Any] | None,
        *,
        task: bool = False,
    ) -> None:
        check_plain("tool()", fn)
        self.fn = fn
        self.may_be_task = task
        self.name = name or str(getattr(fn, "__name__", ""))
        if not check_name(self.name) or self.name == "<lambda>":
            raise BadArgument(f"a tool needs a name, and {fn!r} has none; give tool(name=...)")
        self.description = description if description is not None else inspect.getdoc(fn)
        try:
            self.signature = inspect.signature(fn)
        except ValueError:
            raise BadArgument(f"the parameters of tool {fn!r} cannot be read; wrap it in a function") from None
        self.schema = dict(schema) if schema is not None else _schema_of(fn, self.signature)
        try:
            json.dumps(self.schema, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadArgument(
                f"the schema of tool {self.name!r} is nothing that JSON has ({error}); give tool(schema=...)"
            ) from error

    def as_dict(self) -> dict[str, Any]:
        """What ``tools/list`` says of it."""
        said: dict[str, Any] = {"name": self.name, "inputSchema": self.schema}
        if self.description:
            said["description"] = self.description
        if self.may_be_task:
            said["execution"] = {"taskSupport": "optional"}
        return said

    def __call__(self, request: Request) -> dict[str, Any]:
        """Call it with the arguments of the request."""
        arguments = arguments_of(request, self.name)
        try:
            bound = self.signature.bind(**arguments)
        except TypeError as error:
            raise Refused(f"{self.name}: {error}", code=INVALID_PARAMS) from None
        return result_of(self.fn(*bound.args, **bound.kwargs))


def arguments_of(request: Request, name: str) -> dict[str, Any]:
    """The arguments that a request has for the tool of that name."""
    arguments = request.params.get("arguments")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise Refused(f"arguments of {name} are an object", code=INVALID_PARAMS)
    return arguments


def result_of(value: Any) -> dict[str, Any]:
    """A tool's value as the result of a call: text as it is, a result as it is, all else as JSON."""
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        return value
    if isinstance(value, str):
        return {"content": [_text(value)], "isError": False}
    if value is None:
        return {"content": [], "isError": False}
    text = json.dumps(value, ensure_ascii=False, allow_nan=not isinstance(value, dict))
    result: dict[str, Any] = {"content": [_text(text)], "isError": False}
    if isinstance(value, dict):
        result["structuredContent"] = value
    return result


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _schema_of(fn: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """A JSON schema of the parameters, as far as their annotations are plain ones."""
    try:
        hints = typing.get_type_hints(fn)
    except Exception:  # noqa: BLE001 - a name that cannot be resolved: its parameter takes anything
        hints = {}
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise BadArgument(f"tool {fn!r} is called with names, and {parameter} has none that it takes")
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        properties[name] = _schema(hints.get(name))
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _schema(hint: Any) -> dict[str, Any]:
    if hint in _KINDS:
        return {"type": _KINDS[hint]}
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(one) for one in typing.get_args(hint)]}
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(hint))}
    plain = origin or hint
    if isinstance(plain, type) and issubclass(plain, Mapping):
        return {"type": "object"}
    if isinstance(plain, type) and issubclass(plain, Sequence):
        inner = typing.get_args(hint)
        return {"type": "array", "items": _schema(inner[0])} if inner else {"type": "array"}
    return {}


def is_of_a_loop(fn: object) -> bool:
    """Whether it is a ``Tool`` of the agent loop, rather than a function."""
    agent = sys.modules.get("turnctl.agent.tools")  # who has such a tool has loaded that
    return agent is not None and isinstance(fn, agent.Tool)


def made_of(
    fn: Any, name: str | None, description: str | None, schema: Mapping[str, Any] | None, *, task: bool
) -> Tool:
    """The tool of a plain function, or of a ``Tool`` of the agent loop."""
    if is_of_a_loop(fn):
        from turnctl.integrations.mcp.agents import AgentTool

        return AgentTool(fn, name, description, schema, task=task)
    return Tool(fn, name, description, schema, task=task)
