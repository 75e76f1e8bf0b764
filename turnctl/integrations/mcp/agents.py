"""A ``Tool`` of the agent loop as a tool of a server: with its name, schema, checks of arguments, effect and timeout.

What a loop would do around it and a server cannot, which is to ask somebody first, is refused when it is registered.

May block: as the tool does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from turnctl.clock import format_duration
from turnctl.errors import BadArgument
from turnctl.integrations.mcp.serving import Request
from turnctl.integrations.mcp.tools import Tool, arguments_of
from turnctl.records.messages import Call, Image, Result
from turnctl.turns import current_turn
from turnctl.waiting.call import call as raced

if TYPE_CHECKING:
    from turnctl import agent
    from turnctl.agent.tools import Invoked
    from turnctl.turns import Turn

__all__ = ["AgentTool", "plain_function_of"]

_PATIENCE_S = 0.05


class AgentTool(Tool):
    """One tool of an agent loop that clients may call."""

    def __init__(
        self,
        tool: agent.Tool,
        name: str | None,
        description: str | None,
        schema: Mapping[str, Any] | None,
        *,
        task: bool = False,
    ) -> None:
        if schema is not None:
            raise BadArgument(f"{tool!r} has a schema of its own; give that to Tool(schema=...)")
        if tool.approval:
            raise BadArgument(
                f"{tool!r} is not called before somebody has allowed it, and a server has nobody to ask; serve "
                "Tool(fn) without approval if its clients ask"
            )
        said = tool.description if description is None else description
        super().__init__(tool.fn, name or tool.name, said, tool.schema, task=task)
        self.tool = tool

    def __call__(self, request: Request) -> dict[str, Any]:
        """Call it with the arguments of the request, in its turn. A checkpoint where the tool has a timeout."""
        call = Call(str(request.id), self.tool.name, arguments_of(request, self.name))
        turn = current_turn()
        assert turn is not None  # each request is one
        return _told(self._invoked(call, turn))

    def _patience(self) -> float | None:
        """What it has to come back after its time: the grace if it acts on the world, else what a loop gives."""
        return None if self.tool.effect is not None else _PATIENCE_S

    def _invoked(self, call: Call, turn: Turn) -> Result:
        tool = self.tool
        if tool.timeout_s is None:
            return tool.invoke(call, turn).result
        made: list[Invoked] = []
        with turn.child(timeout=tool.timeout_s) as token:
            made.append(raced(turn, tool.invoke, (call, turn), {}, patience=self._patience))
        if made:
            return made[0].result
        turn.check()
        if token.cause != "deadline":
            raise token._error()
        took = format_duration(tool.timeout_s)
        return Result(
            call.id, f"{tool.name} took longer than {took} and was stopped; its outcome is unknown", "unknown"
        )


def plain_function_of(tool: agent.Tool) -> Callable[..., Any]:
    """What a plain tool of the loop does, as a function with its name and its text, for another server's own wrapping.

    Raises ``BadArgument`` for one that acts on the world or asks first: called as a function it would do neither.
    """
    if tool.approval or tool.effect is not None:
        raise BadArgument(
            f"{tool!r} passes a gate or asks first, which its function alone does not; serve it by "
            "turnctl.integrations.mcp.Server, or write a function that does so"
        )

    @functools.wraps(tool.fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return tool.fn(*args, **kwargs)

    plain.__name__, plain.__doc__ = tool.name, tool.description
    return plain


def _told(result: Result) -> dict[str, Any]:
    """A result of the loop's as one of MCP."""
    pictures = [one for one in result.content if isinstance(one, Image) and one.data is not None]
    content = [{"type": "image", "data": one.data, "mimeType": one.media_type} for one in pictures]
    links = [f"\n{one.url}" for one in result.content if isinstance(one, Image) and one.url is not None]
    text = result.text + "".join(links)
    return {"content": [*([{"type": "text", "text": text}] if text else []), *content], "isError": result.is_error}
