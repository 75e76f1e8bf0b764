"""Runs the gauntlet and prints its table: ``python tests/gauntlet [--rivals] [--user UID] [-j N] ...``.

Every kind is run under each supervisor and stopped in each mode; counted is who is left, from outside. Ends with 1
where turnctl has left anything, or one of its runs did not start.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from kinds import KINDS, Maker, Missing
from runs import MODES, Result, run
from supervisors import ALL, OURS, RIVALS, Interpreter, interpreter_for, namespace_refusal
from tables import by_kind, by_supervisor


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/gauntlet", description=__doc__)
    parser.add_argument("--kinds", help="only these, by comma")
    parser.add_argument("--modes", default=",".join(MODES), help="of own, term, int, kill")
    parser.add_argument("--supervisors", help="only these, by comma")
    parser.add_argument("--rivals", action="store_true", help="the others beside turnctl")
    parser.add_argument("--user", type=int, help="run as the user of this number, which need not exist; needs root")
    parser.add_argument("-j", type=int, default=2, help="runs at one time; 2")
    parser.add_argument("--each", action="store_true", help="also print a table of each mode")
    parser.add_argument("--json", type=Path, help="write each run to this file, a line each")
    return parser.parse_args()


def main() -> int:
    asked = _read_arguments()
    names = asked.supervisors.split(",") if asked.supervisors else [*OURS, *(RIVALS if asked.rivals else ())]
    kinds = asked.kinds.split(",") if asked.kinds else [*KINDS]
    modes = asked.modes.split(",")
    for given, known in ((names, ALL), (kinds, KINDS), (modes, MODES)):
        unknown = [one for one in given if one not in known]
        if unknown:
            print(f"not known: {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
            return 2
    python: Interpreter | str = Interpreter() if asked.user is None else interpreter_for(asked.user)
    if isinstance(python, str):
        print(python, file=sys.stderr)
        return 2
    for name in [*names]:
        why = ALL[name].missing()
        if name == "run, namespace":
            why = namespace_refusal(python, asked.user)
        if why:
            print(f"left out: {name}: {why}")
            names.remove(name)

    results: list[Result] = []

    def go(job: tuple[str, str, str]) -> None:
        try:
            result = run(maker, *job, uid=asked.user, python=python)
        except Missing as missing:
            print(f"left out: {missing}", flush=True)
            return
        except Exception as error:
            result = Result(*job, error=repr(error))
        results.append(result)
        if result.supervisor in OURS and not result.is_clean:
            print(result, flush=True)

    with Maker() as maker:
        # what changes its pids is run with little beside it
        for is_moving, width in ((False, asked.j), (True, min(asked.j, 2))):
            jobs = [
                (kind, name, mode) for mode in modes for kind in kinds for name in names
                if KINDS[kind].is_moving is is_moving
            ]  # fmt: skip
            with ThreadPoolExecutor(width) as pool:
                list(pool.map(go, jobs))
    if asked.json:
        asked.json.write_text("".join(json.dumps(one._asdict()) + "\n" for one in results))
    _show(results, names, modes, kinds, each=asked.each)
    return int(any(not one.is_clean for one in results if one.supervisor in OURS))


def _show(results: list[Result], names: list[str], modes: list[str], kinds: list[str], *, each: bool) -> None:
    for mode in modes if each else ():
        print("", *by_kind(results, names, mode, kinds), sep="\n")
    print("", *by_supervisor(results, names, modes), sep="\n")
    for one in results:
        if one.error:
            print(f"not run: {one}")


if __name__ == "__main__":
    raise SystemExit(main())
