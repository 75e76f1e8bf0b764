"""What the revisions of MCP ask of a server's messages: which one a request speaks, and what its result has. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.incoming import METHOD_NOT_FOUND, Call
from turnctl.integrations.mcp.protocol import TASKS, VERSIONS

if TYPE_CHECKING:
    from turnctl.integrations.mcp.tools import Tool

__all__ = ["finish", "version_of", "wants_task"]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


def version_of(call: Call) -> str | None:
    """The version that the request names for itself; None where it was agreed on at the beginning."""
    meta = call.params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def wants_task(call: Call, tool: Tool, version: str | None, *, any_task: bool, stateless: bool) -> bool:
    """Whether the call is to become a task; ``Refused`` where the client may not ask for one."""
    if stateless:
        meta = call.params.get("_meta")
        said = meta.get(_CAPABILITIES_KEY) if isinstance(meta, dict) else None
        extensions = said.get("extensions") if isinstance(said, dict) else None
        return tool.may_be_task and isinstance(extensions, dict) and TASKS in extensions
    if call.params.get("task") is None or not any_task or version != VERSIONS[-1]:
        return False
    if not tool.may_be_task:
        raise Refused(f"tool {tool.name!r} is no task", code=METHOD_NOT_FOUND)
    return True


def finish(message: dict[str, Any], method: str) -> dict[str, Any]:
    """Add what results have from 2026-07-28 on."""
    result = message.get("result")
    if isinstance(result, dict):
        result.setdefault("resultType", "complete")
        if method in ("server/discover", "tools/list"):
            result.update(ttlMs=0, cacheScope="private")
    return message
