"""What a turn printed or streamed, in files: its beginning and end, there after a kill, and what is missing is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import ROOT, kill, line, program

import turnctl
from turnctl.ledger import spool
from turnctl.ledger.purging import purge
from turnctl.ledger.spool import Spool, read, remove


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this user may not mount a file system: {done.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_short_stream_is_kept_whole(tmp_path: Path) -> None:
    """What fits is all there, in one file, and nothing is missing."""
    kept = Spool(str(tmp_path), "t1").stream("stdout")
    for part in (b"one ", b"two ", b"three"):
        kept.write(part)
    kept.finish()
    (found,) = read(str(tmp_path), "t1")

    assert ("stdout", ((0, b"one two three"),), ()) == (found.name, found.pieces, found.missing)
    assert ["stdout.head", "stdout.times.0"] == sorted(os.listdir(tmp_path / "turns" / "t1"))


def test_nothing_is_made_before_the_first_byte(tmp_path: Path) -> None:
    """A turn that prints nothing leaves no folder."""
    made = Spool(str(tmp_path), "t1")
    made.stream("stdout").finish()
    made.close()

    assert [] == os.listdir(tmp_path)
    assert [] == read(str(tmp_path), "t1")
    assert {} == made.account()


@given(
    limit=st.integers(4, 60),
    parts=st.lists(st.integers(0, 40), max_size=30),
)
@settings(max_examples=150, deadline=None)
def test_kept_and_missing_are_all_that_came(limit: int, parts: list[int]) -> None:
    """However it comes: the beginning and the end are there, each byte in its place, never more than the limit."""
    data = bytes(n % 251 for n in range(sum(parts)))
    with tempfile.TemporaryDirectory() as folder:
        kept = Spool(folder, "t1", limit).stream("out")
        at = 0
        for size in parts:
            kept.write(data[at : at + size])
            at += size
        kept.finish()
        found = read(folder, "t1")
    pieces, missing = (found[0].pieces, found[0].missing) if found else ((), ())

    assert len(data) == kept.total == (found[0].total if found else 0)
    assert all(data[offset : offset + len(piece)] == piece for offset, piece in pieces)
    assert len(data) == sum(len(piece) for _, piece in pieces) + sum(n for _, n in missing)
    assert limit >= sum(len(piece) for _, piece in pieces)
    if len(data) > limit:
        assert data.startswith(pieces[0][1])
        assert limit // 4 <= sum(len(piece) for _, piece in pieces[1:])


def test_cut_is_told(tmp_path: Path) -> None:
    """What is missing in the middle is known by place and number, and marked where it is read."""
    made = Spool(str(tmp_path), "t1", 16)
    kept = made.stream("out")
    kept.write(b"0123456789abcdefghijklmnopqrstuvwxyz")
    kept.finish()
    (found,) = read(str(tmp_path), "t1")

    assert ((8, 20),) == found.missing
    assert b"01234567\n[20 bytes left out]\nstuvwxyz" == found.value()
    assert {"out": {"bytes": 36}} == made.account()


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Folder 0700 and file 0600, whatever the umask says."""
    for umask in (0o000, 0o277):
        before = os.umask(umask)
        try:
            made = Spool(str(tmp_path), f"t{umask}")
            made.stream("out").write(b"secret")
            made.close()
        finally:
            os.umask(before)
        folder = tmp_path / "turns" / f"t{umask}"

        assert (0o700, 0o700) == (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777)
        assert 0o600 == (folder / "out.head").stat().st_mode & 0o777


def test_written_survives_the_kill_of_its_process(tmp_path: Path) -> None:
    """After SIGKILL everything up to the last write is there, with no word of the process that wrote it."""
    code = f"""
import sys; sys.path.insert(0, {ROOT!r})
from turnctl.ledger.spool import Spool
kept = Spool(sys.argv[1], "t1", 4000).stream("out")
for n in range(5000):
    kept.write(b"line %d\\n" % n)
print("written", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert b"written\n" == process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    (found,) = read(str(tmp_path), "t1")

    assert found.value().endswith(b"line 4998\nline 4999\n")
    assert sum(len(b"line %d\n" % n) for n in range(5000)) == found.total
    assert 1 == len(found.missing)


def test_full_disk_is_counted_and_gone_on_after(full: Path) -> None:
    """What found no room is told by number and reason; with room again the stream is kept again, in its place."""
    made = Spool(str(full), "t1", 1024 * 1024)
    kept = made.stream("out")
    for _ in range(20):
        kept.write(b"x" * 8192)
    lost = kept.lost
    (full / "turns" / "t1" / "out.head").unlink()
    kept.write(b"the end")
    made.close()
    (found,) = read(str(full), "t1")

    assert "No space left on device" == kept.problem
    assert 20 * 8192 > lost > 60_000
    assert ((20 * 8192, b"the end"),) == found.pieces
    assert {"bytes": 20 * 8192 + 7, "not_kept": lost, "problem": kept.problem} == made.account()["out"]


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A stream without a place goes on, and says why nothing is kept."""
    (tmp_path / "turns").write_text("in the way")
    made = Spool(str(tmp_path), "t1")
    kept = made.stream("out")
    kept.write(b"abc")
    made.close()

    assert {"out": {"bytes": 3, "not_kept": 3, "problem": "Not a directory"}} == made.account()


@pytest.mark.parametrize("turn_id", ["../../x", "a/b", "..", ".", "x" * 300, "ä\udc80", "%2E", "a b"])
def test_id_of_a_turn_leads_nowhere_else(tmp_path: Path, turn_id: str) -> None:
    """Whatever a host calls its turns, each has one folder of its own in the one place."""
    made = Spool(str(tmp_path), turn_id)
    made.stream(turn_id).write(b"here")
    made.close()
    (folder,) = (tmp_path / "turns").iterdir()

    assert ["turns"] == os.listdir(tmp_path)
    assert folder.is_dir()
    assert [b"here"] == [one.value() for one in read(str(tmp_path), turn_id)]


def test_names_of_turns_are_told_apart(tmp_path: Path) -> None:
    """Two ids never share a folder, also where one is spelled as the other is kept."""
    names = ["a/b", "a%2Fb", ".", "%2E", "x" * 200, "x" * 201]

    assert len(names) == len({spool.folder_of(str(tmp_path), one) for one in names})


def test_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    """Two streams of the same name do not run into each other."""
    made = Spool(str(tmp_path), "t1")
    first, second = made.stream("run.stdout"), made.stream("run.stdout")
    first.write(b"1")
    second.write(b"2")
    made.close()

    assert [("run.stdout", b"1"), ("run.stdout-2", b"2")] == [
        (one.name, one.value()) for one in read(str(tmp_path), "t1")
    ]


def test_last_streams_are_kept(tmp_path: Path) -> None:
    """Of a turn that does very many things the last ones are there, and it says that others are not."""
    made = Spool(str(tmp_path), "t1")
    for n in range(spool.MOST_STREAMS + 5):
        kept = made.stream(f"s{n:03}")
        kept.write(b"%d" % n)
        kept.finish()
    made.close()
    found = read(str(tmp_path), "t1")

    assert spool.MOST_STREAMS == len(found)
    assert ("s005", "s068") == (found[0].name, found[-1].name)
    assert 5 == made.account()["streams_left_out"]


class _Chunk:
    """An event of a model's client."""

    type = "content.delta"
    delta = "Hello"


def test_items_are_kept_as_what_they_say(tmp_path: Path) -> None:
    """Text and bytes as they are, a model's event as its text, plain values as JSON, all else by its type."""
    made = Spool(str(tmp_path), "t1")
    kept = made.stream("s")
    for item in ("a", b"b", _Chunk(), {"n": 1}, object()):
        kept.item(item)
    made.close()

    assert b'abHello{"n": 1}\n<object>\n' == read(str(tmp_path), "t1")[0].value()


def test_removed_leaves_nothing(tmp_path: Path) -> None:
    """What is taken away is gone with its folder, and only that; the second time does nothing."""
    for turn_id in ("t1", "t2"):
        made = Spool(str(tmp_path), turn_id)
        made.stream("out").write(b"x")
        made.close()
    remove(str(tmp_path), "t1")
    remove(str(tmp_path), "t1")

    assert ["t2"] == os.listdir(tmp_path / "turns")


# -- what a turn on a task keeps ----------------------------------------------------------------------------------


def kept_of(place: Path, turn_id: str) -> dict[str, bytes]:
    return {one.name: one.value() for one in read(str(place.parent), turn_id)}


def test_captured_output_of_a_turn_is_kept(place: Path) -> None:
    """Under a task of a durable ledger both streams of a command are kept, by its name; so are those of a handle."""
    with turnctl.open_ledger(str(place)) as ledger, turnctl.turn(task=ledger.submit("acme", "job")) as turn:
        first = turn.run(["sh", "-c", "echo out; echo err >&2"])
        turn.run(["sh", "-c", "echo both; echo in order >&2"], merge_stderr=True)
        with turn.popen(["echo", "handle"]) as process:
            lines = list(process)

    assert (b"out\n", b"err\n", [b"handle\n"]) == (first.stdout, first.stderr, lines)
    assert {
        "sh.stdout": b"out\n",
        "sh.stderr": b"err\n",
        "sh.stdout+stderr": b"both\nin order\n",
        "echo.stdout": b"handle\n",
    } == kept_of(place, turn.turn_id)


def test_output_of_a_stopped_turn_is_on_record(place: Path) -> None:
    """What a command printed before the stop is there, and the row of its turn says how much that was."""
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:

            def printed(_: object) -> None:
                task.cancel(by="alice")

            turn.run(["sh", "-c", "echo before; sleep 60"], tee=printed)
        (row,) = ledger.report(task).turns

    assert {"sh.stdout": b"before\n"} == kept_of(place, turn.turn_id)
    assert {"kept": {"sh.stdout": {"bytes": 7}}} == json.loads(row.output or "")


@pytest.mark.parametrize("ahead", [0, 256])
def test_streamed_text_is_kept_up_to_the_stop(place: Path, ahead: int) -> None:
    """What a stream had received when it was stopped is there, also what its loop never saw."""
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")
        came = threading.Event()

        def tokens() -> Iterator[str]:
            yield "Once "
            yield "upon "
            came.set()
            yield "a time"

        with turnctl.turn(task=task) as turn:
            for text in turn.stream(tokens(), name="answer", ahead=ahead):
                if text == "upon ":
                    assert ahead == 0 or came.wait(10)
                    task.cancel(by="alice")
                    turn.sleep(10)

    assert kept_of(place, turn.turn_id)["answer.stream"].startswith(b"Once upon ")
    assert ["answer.stream.head", "answer.stream.times.0"] == sorted(os.listdir(place.parent / "turns" / turn.turn_id))


def test_streamed_text_survives_a_kill(place: Path) -> None:
    """After SIGKILL in the middle of a stream everything that it had received is there."""
    code = """
import turnctl
def tokens():
    for n in range(100):
        yield f"token {n} "
    say("received")
    time.sleep(60)
with turnctl.open_ledger(path) as ledger:
    with turnctl.turn(turn_id="t1", task=ledger.submit("acme", "job")) as turn:
        for text in turn.stream(tokens(), name="answer"):
            pass
"""
    process = program(code, place)
    assert "received" == line(process)
    kill(process)

    assert {"answer.stream": "".join(f"token {n} " for n in range(100)).encode()} == kept_of(place, "t1")


def test_list_is_not_kept(place: Path) -> None:
    """What the program had before is nothing that came; without a durable ledger nothing is kept at all."""
    with turnctl.open_ledger(str(place)) as ledger, turnctl.turn(task=ledger.submit("acme", "job")) as turn:
        assert ["a"] == list(turn.stream(["a"]))
    with turnctl.open_ledger("memory:") as ledger, turnctl.turn(task=ledger.submit("acme", "job")) as turn:
        turn.run(["echo", "x"])

    assert not (place.parent / "turns").exists()


def test_purge_takes_the_output_along(place: Path) -> None:
    """What a purged turn printed goes with it, and nothing of a turn that stays."""
    with turnctl.open_ledger(str(place)) as ledger:
        with turnctl.turn(turn_id="old", task=ledger.submit("acme", "old")) as turn:
            turn.run(["echo", "x"])
        with turnctl.turn(turn_id="new", task=ledger.submit("acme", "new")) as turn:
            turn.run(["echo", "x"])
            before = os.listdir(place.parent / "turns")
            purge(ledger.store, older_than_s=0, tombstones_s=60, dry_run=False, include_detached=False)

    assert ["new", "old"] == sorted(before)
    assert ["new"] == os.listdir(place.parent / "turns")
