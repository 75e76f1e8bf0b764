"""What a client sends is told apart, however malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from examples import given
from hypothesis import strategies as st

from turnctl.integrations.mcp.incoming import Bad, Call, Note, Reply, encode, parse, result_message


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (Call(1, "ping", {}), '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'),
        (Call("1", "ping", {}), '{"id": "1", "method": "ping", "params": null}'),
        (Call(1, "ping", {"a": 1}), '{"id": 1.0, "method": "ping", "params": {"a": 1}}'),
        (Note("n", [1]), '{"method": "n", "params": [1]}'),
        (Note("n", None), '{"method": "n"}'),
        (Reply(3), '{"id": 3, "result": {}}'),
    ],
)
def test_well_formed_messages(told: Any, text: str) -> None:
    """Requests, notifications and replies are known by what they have."""
    assert [told] == parse(text.encode())


@pytest.mark.parametrize(
    ("code", "request_id", "text"),
    [
        (-32700, None, "{"),
        (-32700, None, "\xff"),
        (-32700, None, '{"id": NaN, "method": "x"}'),
        (-32700, None, "[" * 100_000),
        (-32700, None, '{"id": 1' + "0" * 5000 + ', "method": "x"}'),
        (-32600, None, "[]"),
        (-32600, None, "7"),
        (-32600, None, '"text"'),
        (-32600, 4, '{"id": 4}'),
        (-32600, None, '{"id": null, "method": "x"}'),
        (-32600, None, '{"id": true, "method": "x"}'),
        (-32600, None, '{"id": 1.5, "method": "x"}'),
        (-32600, None, '{"id": {}, "method": "x"}'),
        (-32600, "a", '{"id": "a", "method": 3}'),
        (-32602, 5, '{"id": 5, "method": "x", "params": [1]}'),
        (-32602, 5, '{"id": 5, "method": "x", "params": "y"}'),
    ],
)
def test_malformed_messages(code: int, request_id: Any, text: str) -> None:
    """Each fault has its code of JSON-RPC, and the id where one can be made out."""
    [bad] = parse(text.encode("latin-1"))

    assert isinstance(bad, Bad)
    assert (code, request_id) == (bad.code, bad.id)
    assert bad.message


def test_batch_is_its_messages() -> None:
    """A batch is taken apart, the faulty ones with it."""
    assert [Call, Bad, Note] == [type(one) for one in parse(b'[{"id": 1, "method": "x"}, 3, {"method": "n"}]')]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_nothing_that_json_has_is_raised_at(value: Any) -> None:
    """Whatever stands in the places of a message, it is told apart without an exception."""
    text = json.dumps({"id": value, "method": "m", "params": {"requestId": value}})

    assert 1 == len(parse(text.encode(errors="surrogatepass")))


def test_encoding_is_one_line() -> None:
    """A message is one line whatever text is in it, and comes back as it was; half of a pair of surrogates does not."""
    message = result_message(1, {"text": "a\nb\r\u2028\ud800é"})
    line = encode(message)

    assert b"\n" not in line
    assert result_message(1, {"text": "a\nb\r\u2028\ufffdé"}) == json.loads(line.decode())
