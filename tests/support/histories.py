"""Random histories in the shapes of the providers, with everything wrong in them that can be put right."""

from __future__ import annotations

import random
from typing import Any

History = list[Any]

#: few, so that they come again; the last ones no provider takes
IDS = ("a", "b", "c", "d", "call_0", "a-2", "", None, "with space", "é", "m" * 40, "n" * 64, "l" * 900)
TEXTS = ("hello", "", "  \n", "cancelled, outcome unknown: it may have been carried out, in part or wholly")


def openai(chance: random.Random) -> History:
    return [_openai_item(chance) for _ in range(chance.randrange(10))]


def _openai_item(chance: random.Random) -> Any:
    kind = chance.randrange(10)
    if kind < 3:
        calls = [
            {"id": chance.choice(IDS), "type": "function", "function": {"name": "do", "arguments": "{}"}}
            for _ in range(chance.randrange(4))
        ]
        content = chance.choice([None, *TEXTS])
        return {"role": "assistant", "content": content, "tool_calls": calls}
    if kind < 6:
        content = chance.choice([*TEXTS, None, [{"type": "text", "text": chance.choice(TEXTS)}]])
        return {"role": "tool", "tool_call_id": chance.choice(IDS), "content": content}
    if kind == 6:
        return {"role": "assistant", "content": None, "function_call": {"name": chance.choice("fg"), "arguments": "{}"}}
    if kind == 7:
        return {"role": "function", "name": chance.choice("fgh"), "content": chance.choice(TEXTS)}
    if kind == 8:
        parts = [{"type": "text", "text": chance.choice(TEXTS)} for _ in range(chance.randrange(3))]
        image = {"type": "image_url", "image_url": {"url": "http://x/1"}}
        return {"role": "user", "content": [*parts, *([image] if chance.randrange(2) else [])]}
    return {"role": chance.choice(["user", "system", "assistant"]), "content": chance.choice(TEXTS)}


def anthropic(chance: random.Random) -> History:
    return [_anthropic_item(chance) for _ in range(chance.randrange(10))]


def _anthropic_item(chance: random.Random) -> Any:
    role = chance.choice(["user", "assistant"])
    if chance.randrange(5) == 0:
        return {"role": role, "content": chance.choice(TEXTS)}
    of_role = _anthropic_use if role == "assistant" else _anthropic_result
    blocks = [chance.choice([of_role, of_role, _anthropic_text])(chance) for _ in range(chance.randrange(5))]
    if role == "assistant" and chance.randrange(2):
        blocks.insert(0, {"type": "thinking", "thinking": "hm", "signature": f"s{chance.randrange(99)}"})
    return {"role": role, "content": blocks}


def _anthropic_text(chance: random.Random) -> Any:
    return {"type": "text", "text": chance.choice(TEXTS)}


def _anthropic_use(chance: random.Random) -> Any:
    return {"type": "tool_use", "id": chance.choice(IDS), "name": "do", "input": {}}


def _anthropic_result(chance: random.Random) -> Any:
    content = chance.choice([*TEXTS, None, [], [{"type": "text", "text": chance.choice(TEXTS)}]])
    return {"type": "tool_result", "tool_use_id": chance.choice(IDS), "content": content}


def responses(chance: random.Random) -> History:
    return [_responses_item(chance) for _ in range(chance.randrange(10))]


def _responses_item(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 3:
        return {"type": "function_call", "call_id": chance.choice(IDS), "name": "do", "arguments": "{}"}
    if kind < 5:
        return {"type": "function_call_output", "call_id": chance.choice(IDS), "output": chance.choice(TEXTS)}
    if kind == 5:
        return {"type": "reasoning", "id": f"r{chance.randrange(99)}", "summary": []}
    if kind == 6:
        content = [{"type": "output_text", "text": chance.choice(TEXTS)}]
        return {"type": "message", "role": "assistant", "content": content}
    return {"role": chance.choice(["user", "assistant"]), "content": chance.choice(TEXTS)}


SHAPES = {"openai": openai, "anthropic": anthropic, "responses": responses}
