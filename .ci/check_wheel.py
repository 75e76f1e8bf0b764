"""Says what is wrong with the content of a wheel: too little, too much, or other than the source."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

MANUAL = re.compile(r"turnctl-[^/]*\.data/data/share/man/man1/turnctl[a-z-]*\.1")
DATA = {".py", ".sql", ".json", ".typed"}


def faults(wheel: Path, source: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    expected = {
        f"turnctl/{path.relative_to(source).as_posix()}": path.read_bytes()
        for path in source.rglob("*")
        if path.suffix in DATA and "__pycache__" not in path.parts
    }
    info = {name for name in content if name.split("/")[0].endswith(".dist-info")}
    manuals = {name for name in content if MANUAL.fullmatch(name)}
    commands = {path.stem for path in (source.parent / "docs" / "cli").glob("*.md")}
    both = set(expected) & set(content)
    found = [f"missing: {name}" for name in sorted(set(expected) - both)]
    found += [f"does not belong: {name}" for name in sorted(set(content) - both - info - manuals)]
    found += [f"differs: {name}" for name in sorted(both) if expected[name] != content[name]]
    told = {name.rpartition("/turnctl-")[2].removesuffix(".1") for name in manuals}
    found += [f"no man page: turnctl {name}" for name in sorted(commands - told)]
    for needed in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"):
        if not any(name.endswith(f".dist-info/{needed}") for name in info):
            found.append(f"missing: {needed}")
    if "turnctl/py.typed" not in content:
        found.append("missing: turnctl/py.typed")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]), Path(sys.argv[2]))
    print(*wrong, sep="\n", file=sys.stderr)
    if wrong:
        sys.exit(1)
    print(f"{Path(sys.argv[1]).name}: as it should be")
