"""Finding out what became of effects: by a probe, by a person's word with evidence, or closed as unknown by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import Ended, ask
from schemas import fits
from shelf import IDS, gone, opened

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS

Capture = pytest.CaptureFixture[str]

PROBES = """
import turnctl
from turnctl.ledger import Answer

def sent(effect):
    return Answer("completed", receipt=f"msg for {effect.effect_id}")

def nothing(effect):
    return None

def breaks(effect):
    raise OSError("no route")

def nonsense(effect):
    return "yes"


def hangs(effect):
    turnctl.sleep(60)  # a checkpoint of the turn that asks

number = 7
"""


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of probes in the current folder."""
    name = "probes_of_a_test"
    (tmp_path / f"{name}.py").write_text(PROBES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_what_is_unresolved_is_told(shelf: Path, capfd: Capture) -> None:
    """Without a probe nobody is asked: what is unknown stays so, with how soon somebody has to decide."""
    expected = "e-d1  email.send 'k1'  unknown (page): nobody was given to ask about email.send\n"

    assert Ended(7, expected, "") == ask(capfd, "reconcile")
    assert Ended(7, "e-d1  email.send 'k1'  unknown: would be asked about\n", "") == ask(
        capfd, "reconcile", "--dry-run"
    )

    assert Ended(0, "nothing is unresolved\n", "") == ask(capfd, "reconcile", COMPLETED)


@pytest.mark.parametrize("prefix", ["", "email.send="])
def test_answer_is_kept_with_its_receipt(shelf: Path, capfd: Capture, probes: str, prefix: str) -> None:
    """A probe's answer is kept, the task settles, and nothing is asked a second time."""
    ended = ask(capfd, "reconcile", UNRESOLVED, "--probe", f"{prefix}{probes}:sent")

    assert Ended(0, "e-d1  email.send 'k1'  unknown -> completed (receipt msg for e-d1)\n", "") == ended
    assert 3 == ask(capfd, "status", UNRESOLVED).status
    assert Ended(0, "nothing is unresolved\n", "") == ask(capfd, "reconcile", "--probe", f"{probes}:sent")


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ("nothing", "unknown (page)\n"),
        ("breaks", "unknown (page): OSError: no route\n"),
        ("nonsense", "unknown (page): the probe answers with turnctl.ledger.Answer or None, not 'yes'\n"),
    ],
)
def test_what_tells_nothing_leaves_unknown(shelf: Path, capfd: Capture, probes: str, probe: str, said: str) -> None:
    """A probe that cannot tell, fails, or answers nonsense leaves unknown, and says why."""

    assert Ended(7, f"e-d1  email.send 'k1'  {said}", "") == ask(capfd, "reconcile", "--probe", f"{probes}:{probe}")


def test_person_tells_with_evidence(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """What a person has found out is kept as a receipt, with who said it; a contradiction changes nothing later."""
    note = tmp_path / "mail.log"
    note.write_text("250 2.0.0 ok\n")
    told = ask(capfd, "reconcile", "--effect", "e-d1", "--mark", "completed", "--evidence", f"@{note}", "--by", "ana")
    shown = fits(json.loads(ask(capfd, "effects", "show", "e-d1", "--json").out))
    again = ask(capfd, "reconcile", "--effect", "e-d1", "--mark", "rejected", "--evidence", "bounced", "--json")
    (found,) = fits(json.loads(again.out))["effects"]

    assert Ended(0, "e-d1  email.send 'k1'  unknown -> completed (receipt 250 2.0.0 ok)\n", "") == told
    assert {"source": "ana, by hand", "body": "250 2.0.0 ok\n"} == shown["receipt"]
    assert ("completed", "completed") == (found["before"], found["after"])
    assert "e-d1" in found["problem"]


def test_unknown_is_closed_by_name(shelf: Path, capfd: Capture) -> None:
    """Closing says who has decided that nobody will ever know; the effect stays unknown."""
    closed = ask(capfd, "reconcile", "--effect", "e-d1", "--close", "--reason", "no log is left", "--by", "ana")
    shown = fits(json.loads(ask(capfd, "effects", "show", "e-d1", "--json").out))

    assert Ended(0, "e-d1  email.send 'k1'  unknown, closed by ana\n", "") == closed
    assert ("unknown", "ana", False) == (shown["disposition"], shown["closed_by"], shown["is_unresolved"])


def test_lost_turns_are_noted(shelf: Path, capfd: Capture, probes: str) -> None:
    """What a turn had claimed whose process is gone becomes unknown, and is asked about in the same call."""
    with opened(shelf) as more:
        inc = more.turn("t4gggggggg", task="more", holder=gone())
        more.effect(inc, "e-g0", "k0", None)
    ended = ask(capfd, "reconcile", "t4g", "--probe", f"{probes}:sent")

    assert Ended(0, "e-g0  email.send 'k0'  pending -> completed (receipt msg for e-g0)\n", "") == ended


def test_time_that_passes_is_told(shelf: Path, capfd: Capture, probes: str) -> None:
    """A probe that hangs is left when the time has passed; the effect stays unknown, and nothing is claimed."""
    ended = ask(capfd, "reconcile", "--probe", f"{probes}:hangs", "--timeout", "200ms")

    assert 6 == ended.status
    assert ended.out.startswith("e-d1  email.send 'k1'  unknown (page)")
    assert 7 == ask(capfd, "status", UNRESOLVED).status


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["t9z"], 4, "there is no turn t9z"),
        (["--effect", "e-z"], 4, "there is no effect e-z"),
        (["--probe", "nowhere"], 2, "--probe: 'nowhere' names no function; write MODULE:FUNC, or KIND=MODULE:FUNC"),
        (["--probe", "no_such_module:f"], 2, "--probe: no_such_module:f cannot be had: ModuleNotFoundError: "),
        (["--probe", "PROBES:number"], 2, "--probe: PROBES:number is no function"),
        (["--probe", "PROBES:sent", "--probe", "PROBES:sent"], 2, "--probe: there are two for every kind"),
        (["--mark", "completed"], 2, "a decision is about one effect: give exactly one --effect, and no --probe"),
        (["--mark", "completed", "--effect", "e-d1"], 2, "--mark and --evidence belong together"),
        (["--effect", "e-d1", "--evidence", "x"], 2, "--mark and --evidence belong together"),
        (
            ["--effect", "e-d1", "--mark", "rejected", "--evidence", " "],
            2,
            "--evidence is what its receiver said",
        ),
        (
            ["--effect", "e-d1", "--mark", "rejected", "--evidence", "@/nowhere"],
            2,
            "--evidence: /nowhere cannot",
        ),
        (["--effect", "e-d1", "--close"], 2, "--close needs a --reason, which is kept"),
        (["--effect", "e-d1", "--close", "--reason", "a\nb"], 2, "--reason is a line of text, not 'a\\nb'"),
        (["--effect", "e-d1", "--reason", "a"], 2, "--reason belongs to --close"),
        (
            ["--effect", "e-d1", "--mark", "rejected", "--close"],
            2,
            "--mark says what became of it, and",
        ),
        (["--mark", "failed", "--effect", "e-d1", "--evidence", "x"], 2, "--mark: 'failed' is not one of"),
    ],
)
def test_misuse_is_told(shelf: Path, capfd: Capture, probes: str, args: list[str], status: int, message: str) -> None:
    """Wrong use changes nothing, and says what would be right."""
    args = [one.replace("PROBES", probes) for one in args]
    ended = ask(capfd, "reconcile", *args)

    assert (status, "") == (ended.status, ended.out)
    assert ended.err.startswith(f"turnctl: error: {message.replace('PROBES', probes)}")
    assert 7 == ask(capfd, "status", UNRESOLVED).status


def test_what_was_never_sent_cannot_be_marked(shelf: Path, capfd: Capture) -> None:
    """The word for an effect that its worker is just sending is not taken: that nobody has it yet settles nothing."""
    ended = ask(capfd, "reconcile", "--effect", "e-f0", "--mark", "rejected", "--evidence", "not there", "--json")
    (found,) = fits(json.loads(ended.out))["effects"]

    assert ("pending", "pending") == (found["before"], found["after"])
    assert "may be on its way" in found["problem"]


def test_no_ledger_is_nothing_unresolved(tmp_path: Path, capfd: Capture) -> None:
    """Where nothing was recorded there is nothing to ask about."""
    nowhere = str(tmp_path / "nowhere")

    said = f"turnctl: no turn is on record in {nowhere}\n"

    assert Ended(0, "nothing is unresolved\n", said) == ask(capfd, "reconcile", "--state-dir", nowhere)
    assert 4 == ask(capfd, "reconcile", "@", "--state-dir", nowhere).status
