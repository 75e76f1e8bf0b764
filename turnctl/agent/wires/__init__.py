"""What the messages of the loop are on a provider's wire, and the models behind the clients that speak it."""

from __future__ import annotations

from turnctl.agent.wires.anthropic import from_anthropic, to_anthropic
from turnctl.agent.wires.anthropic_model import AnthropicMessages
from turnctl.agent.wires.openai import from_openai, to_openai
from turnctl.agent.wires.openai_model import OpenAIChat

__all__ = ["AnthropicMessages", "OpenAIChat", "from_anthropic", "from_openai", "to_anthropic", "to_openai"]
