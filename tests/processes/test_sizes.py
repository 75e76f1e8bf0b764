"""Sizes are read as people write them, and refused with what would be right."""

from __future__ import annotations

import pytest

from turnctl.errors import BadArgument
from turnctl.processes.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (1, 1),
        ("65536", 65536),
        ("12b", 12),
        ("64k", 65536),
        ("64K", 65536),
        ("64 KiB", 65536),
        ("64kB", 64000),
        ("10MiB", 10 << 20),
        ("10M", 10 << 20),
        ("10MB", 10_000_000),
        ("2g", 2 << 30),
        (" 1TiB ", 1 << 40),
        (None, None),
        ("none", None),
    ],
)
def test_size_is_read(given: object, size: int | None) -> None:
    """Bytes as a number or as text; k, M and G are powers of 1024, kB, MB and GB of 1000."""

    assert size == parse_size(given, what="max_output")


@pytest.mark.parametrize(
    "given", [0, -1, "0", "0k", "-5k", "1x", "", "k", "1.5M", "1e6", "1" * 40, "1" * 5000, 1 << 70]
)
def test_bad_size_is_refused(given: object) -> None:
    """What is no size above 0 is a ``BadArgument`` that names the option."""
    with pytest.raises(BadArgument, match="max_output"):
        parse_size(given, what="max_output")


@pytest.mark.parametrize("given", [True, False, 1.5, b"1k", [1]])
def test_wrong_type_is_refused(given: object) -> None:
    """A truth value is no number of bytes, nor is a float."""
    with pytest.raises(TypeError, match="max_output"):
        parse_size(given, what="max_output")


def test_size_is_written_exactly() -> None:
    """A size is shown in the largest unit that divides it."""

    assert ("1 byte", "1025 bytes", "64 KiB", "10 MiB") == tuple(map(format_size, (1, 1025, 65536, 10 << 20)))


def test_unit_can_be_required() -> None:
    """Where people write, a bare number says too little; nothing at all may be a size too."""
    with pytest.raises(BadArgument, match="memory '512' has no unit; write 512B or 512MiB"):
        parse_size("512", what="memory", unit_required=True)
    with pytest.raises(BadArgument, match="memory -1 must not be negative"):
        parse_size(-1, what="memory", zero=True)

    assert 512 == parse_size("512B", what="memory", unit_required=True)
    assert 0 == parse_size(0, what="memory", zero=True)
