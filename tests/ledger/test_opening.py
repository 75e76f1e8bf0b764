"""Opening a ledger refuses what it cannot vouch for, each for its own reason, and leaves it as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from stores import admit, fill, finish, kill, line, program

import turnctl
from turnctl.errors import (
    BadArgument,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreLost,
    StoreMissing,
    StoreTooNew,
    StoreUnsafe,
)
from turnctl.ledger import opening, schema
from turnctl.ledger.opening import init, open_sqlite, take_as_it_is
from turnctl.ledger.places import check_file_system, file_system_of
from turnctl.ledger.verify import verify


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sql(path: Path, *statements: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def refused(path: Path) -> StoreError:
    """The refusal, of opening and of making; the file is as it was."""
    before = sha(path) if path.is_file() else None
    with pytest.raises(StoreError) as opening:
        open_sqlite(path)

    assert before == (sha(path) if path.is_file() else None)
    assert str(path) in str(opening.value)
    return opening.value


def test_init_makes_an_empty_ledger_for_its_owner(quick: Path) -> None:
    """Folder 0700, files 0600, no log left, so that one which is lost later shows; a second time it does nothing."""
    path = quick / "state" / "turnctl" / "ledger.db"
    made = init(path)
    names = {one.name for one in path.parent.iterdir()}

    assert (True, False) == (made, init(path))
    assert 0o700 == path.parent.stat().st_mode & 0o777
    assert {0o600} == {one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    assert {"ledger.db", "ledger.db.hwm", "ledger.db.making"} == names
    assert verify(path)


def test_what_a_killed_maker_left_is_taken_away(quick: Path) -> None:
    """By the next one, who knows that none lives; what only looks like it stays."""
    place = quick / "a.db"
    pid = os.fork()
    if pid == 0:
        opening.connect = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,return-value]
        init(place)
    os.waitpid(pid, 0)
    (left,) = quick.glob("a.db.new-*")
    others = [quick / f"{left.name}{ending}" for ending in ("-wal", "-shm")]
    kept = [quick / name for name in ("a.db.new-notes", "b.db.new-0badcafe", "a.db.new-0badcafe.txt")]
    for one in (*others, *kept):
        one.write_text("x")
    made = init(place)

    assert made
    assert [] == [one for one in (left, *others) if one.exists()]
    assert kept == [one for one in kept if one.exists()]


def test_opening_makes_nothing(quick: Path) -> None:
    """A ledger that is not there is not made by looking for it."""
    error = refused(quick / "none.db")

    assert StoreMissing is type(error)
    assert [] == list(quick.iterdir())


def test_what_is_kept_is_there_again(place: Path) -> None:
    """All rows, payload bytes and the log are the same after closing and opening."""
    store = open_sqlite(place)
    fill(store)
    events = store.read(lambda books: books.events("i1"))
    view = store.read(lambda books: books.incarnation("i1"))
    store.close()
    again = open_sqlite(place)

    assert events == again.read(lambda books: books.events("i1"))
    assert view == again.read(lambda books: books.incarnation("i1"))
    assert b"payload" == again.read(lambda books: books.payload("e0"))
    again.close()
    assert verify(place)


def _text(path: Path) -> None:
    path.write_bytes(b"not a database, but longer than a header of one hundred bytes" * 20)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other(path: Path) -> None:
    path.unlink()
    sql(path, "PRAGMA application_id=1", "CREATE TABLE t (a)")


def _other_with_a_hot_log(path: Path) -> None:
    copy = path.with_name("copy")
    path.unlink()
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"):
        connection.execute(statement)
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    connection.close()
    os.rename(copy, path)
    os.rename(f"{copy}-wal", f"{path}-wal")


def _no_meta(path: Path) -> None:
    sql(path, "DROP TABLE meta")


def _other_version(path: Path) -> None:
    sql(path, "PRAGMA user_version=7")


def _newer(path: Path) -> None:
    sql(path, "UPDATE meta SET schema_version=9, min_reader=8, written_by='turnctl 9.9'", "PRAGMA user_version=9")


def _newer_writer(path: Path) -> None:
    sql(path, "UPDATE meta SET schema_version=9, min_writer=9", "PRAGMA user_version=9")


def _journal(path: Path) -> None:
    sql(path, "PRAGMA journal_mode=DELETE")


def _truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_text, StoreForeign),
        (_empty, StoreForeign),
        (_other, StoreForeign),
        (_other_with_a_hot_log, StoreForeign),
        (_no_meta, StoreDamaged),
        (_other_version, StoreDamaged),
        (_truncated, StoreDamaged),
        (_newer, StoreTooNew),
        (_newer_writer, StoreTooNew),
        (_journal, StoreUnsafe),
    ],
)
def test_what_is_no_ledger_of_ours_is_refused(
    place: Path, change: Callable[[Path], None], kind: type[StoreError]
) -> None:
    """Foreign, damaged and newer files are refused unchanged, and never made into a ledger."""
    Path(f"{place}.hwm").unlink()
    change(place)
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(f"{place}{ending}"):
            os.chmod(f"{place}{ending}", 0o600)
    error = refused(place)
    with pytest.raises(kind):
        init(place)

    assert kind is type(error)
    assert "turnctl 9.9" in str(error) or change is not _newer


def test_newer_ledger_says_what_it_needs(place: Path) -> None:
    """Who has too old a turnctl is told which schema it takes."""
    _newer(place)
    error = refused(place)

    assert 8 == error.needs  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
@pytest.mark.parametrize("ending", ["", ".hwm", "folder"])
def test_what_others_can_reach_is_refused(place: Path, mode: int, ending: str) -> None:
    """A ledger holds payloads: a folder or file that others can reach is refused, with the remedy."""
    name = place.parent if ending == "folder" else Path(f"{place}{ending}")
    os.chmod(name, mode | 0o100 if ending == "folder" else mode)
    before = place.read_bytes()
    with pytest.raises(StoreUnsafe, match=f"chmod 0[67]00 {name}"):
        open_sqlite(place)

    assert before == place.read_bytes()


def test_store_of_another_user_is_refused(place: Path) -> None:
    """Who is not its owner does not open it: not even root, who would leave files that the owner cannot write."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(place, 12345, -1)

    assert "belongs to user 12345" in str(refused(place))


def test_two_names_of_one_file_are_refused(place: Path) -> None:
    """Under another name SQLite would keep another log."""
    os.link(place, place.with_name("second"))

    assert "2 names" in str(refused(place))


def test_name_that_leads_elsewhere_is_the_same_ledger(place: Path, quick: Path) -> None:
    """A symbolic link is followed once, so that all use one name for the log."""
    link = quick / "link.db"
    link.symlink_to(place)
    store = open_sqlite(link)

    assert str(place.resolve()) == store.path
    store.close()


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 0:44 / /home rw - nfs4 server:/home rw
31 30 0:45 / /home/ann/my\\040disk rw - ext4 /dev/sdb1 rw
32 21 0:46 / /mnt rw - ext4 /dev/sdc1 rw
33 21 0:47 / /mnt rw - fuse.sshfs ann@there: rw
34 21 0:48 / /home2 rw - xfs /dev/sdd1 rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann", "nfs4"),
        ("/home/ann/my disk/x", "ext4"),
        ("/mnt/x", "fuse.sshfs"),
        ("/home2/x", "xfs"),
    ],
)
def test_file_system_is_that_of_the_innermost_mount(folder: str, kind: str) -> None:
    """The longest mount point counts, of two on one place the later; names are unescaped, and matched by parts."""
    assert kind == file_system_of(folder, MOUNTS)


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "lustre", "afs", "virtiofs"]
)
def test_file_system_of_others_is_refused(kind: str) -> None:
    """Where locks and flushes cannot be relied on no ledger is opened."""
    with pytest.raises(StoreUnsafe, match=f"of type {kind}"):
        check_file_system("/srv/ledger.db", f"21 1 8:1 / / rw - {kind} x rw\n")


def test_local_file_systems_pass() -> None:
    """What is on a disk of this machine is taken, and what the system tells nothing of."""
    for kind in ("ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs"):
        check_file_system("/srv/ledger.db", f"21 1 8:1 / / rw - {kind} x rw\n")
    check_file_system("/srv/ledger.db", "")


# -- what was acknowledged is there ---------------------------------------------------------------------------------


def _crashed(place: Path) -> None:
    """A store that a process was killed over: what it had acknowledged is in the log alone."""
    process = program("store = open_sqlite(path); fill(store); say('filled'); time.sleep(60)", place)
    assert "filled" == line(process)
    kill(process)


def test_log_that_was_lost_is_noticed(place: Path) -> None:
    """The log of a crashed store was deleted: what it had acknowledged is not there, and it is refused."""
    _crashed(place)
    os.unlink(f"{place}-wal")
    error = refused(place)

    assert StoreLost is type(error)
    assert "its log was lost" in str(error)


def test_crashed_store_is_whole(place: Path) -> None:
    """Nothing that was acknowledged is missing after SIGKILL."""
    _crashed(place)
    store = open_sqlite(place)

    assert "completed" == store.read(lambda books: books.effect("e0")).disposition
    store.close()
    assert verify(place)


def test_backup_that_was_put_back_is_noticed(place: Path, quick: Path) -> None:
    """A store that is behind what it had acknowledged opens when a person has decided that it holds, not before."""
    store = open_sqlite(place)
    fill(store)
    store.close()
    backup = quick / "backup"
    shutil.copy(place, backup)
    store = open_sqlite(place)
    admit(store, "later")
    store.close()
    shutil.copy(backup, place)
    error = refused(place)
    with pytest.raises(StoreLost):
        open_sqlite(place)
    take_as_it_is(place)
    again = open_sqlite(place)

    assert StoreLost is type(error)
    assert None is again.read(lambda books: books.effect("later"))
    again.close()


def test_other_ledger_in_its_place_is_noticed(place: Path, quick: Path) -> None:
    """Another ledger under the same name is not taken for it."""
    other = quick / "other.db"
    init(other)
    os.replace(other, place)

    assert "was replaced by another one" in str(refused(place))


@pytest.mark.parametrize("left", ["nothing", "empty", "a database without tables"])
def test_ledger_that_is_gone_is_not_made_anew(place: Path, left: str) -> None:
    """Where its sidecar says that there was one, neither opening nor making puts an empty one in its place."""
    os.unlink(place)
    if left == "empty":
        place.touch(0o600)
    elif left != "nothing":
        sql(place, "PRAGMA journal_mode=WAL")
        os.chmod(place, 0o600)
    with pytest.raises(StoreLost):
        open_sqlite(place)
    with pytest.raises(StoreLost):
        init(place)

    assert (left != "nothing") == place.exists()


def test_marks_that_cannot_be_read_close_the_ledger(place: Path) -> None:
    """Nobody knows then whether all is there: a person decides."""
    Path(f"{place}.hwm").write_bytes(b"\0" * 256)
    error = refused(place)
    take_as_it_is(place)
    open_sqlite(place).close()

    assert StoreDamaged is type(error)


def test_torn_mark_leaves_the_other(place: Path) -> None:
    """One slot of two that was half written takes nothing away."""
    store = open_sqlite(place)
    fill(store)
    store.close()
    with open(f"{place}.hwm", "r+b") as file:
        file.write(b"turnctl-1 torn")
    open_sqlite(place).close()


def test_unclean_end_has_its_pages_looked_at(place: Path) -> None:
    """After a crash a damaged page is found by whoever opens first."""
    store = open_sqlite(place)
    fill(store)
    store.close()
    process = program("store = open_sqlite(path); admit(store, 'l'); say('in'); time.sleep(60)", place)
    assert "in" == line(process)
    kill(process)
    with open(place, "r+b") as file:
        file.seek(4 * 4096)  # but for those that the log has newer ones of
        file.write(b"\xff" * (place.stat().st_size - 4 * 4096))

    assert StoreDamaged is type(refused(place))


def test_many_make_one_ledger(quick: Path) -> None:
    """Of several processes that make it at once one does, and all have the same one."""
    code = """
        from turnctl.ledger.opening import init
        sys.stdin.readline()
        made = init(path)
        store = open_sqlite(path)
        say(int(made), store.authority)
        store.close()
    """
    crew = [program(code, quick / "ledger.db") for _ in range(2)]
    for process in crew:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [finish(process).split() for process in crew]

    assert ["0", "1"] == sorted(made for made, _ in said)
    assert 1 == len({authority for _, authority in said})


# -- schemas ----------------------------------------------------------------------------------------------------------


def test_older_ledger_is_copied_and_brought_forward(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer turnctl makes a copy, then the steps in one transaction; an older one refuses it from then on."""
    store = open_sqlite(place)
    fill(store)
    store.close()
    steps = schema.migrations()
    with monkeypatch.context() as newer:
        for name in ("VERSION", "MIN_READER", "MIN_WRITER"):
            newer.setattr(schema, name, 2)
        newer.setattr(schema, "migrations", lambda: [*steps, (2, "ALTER TABLE task ADD COLUMN colour TEXT;")])
        store = open_sqlite(place)
        store.close()

    assert StoreTooNew is type(refused(place))
    os.replace(f"{place}.v1", place)
    assert verify(place)


def test_step_that_fails_changes_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema is the old one still, and the old turnctl opens it."""
    with monkeypatch.context() as newer:
        newer.setattr(schema, "VERSION", 2)
        newer.setattr(schema, "migrations", lambda: [(2, "ALTER TABLE task ADD COLUMN c TEXT; SELECT nonsense;")])
        with pytest.raises(StoreError):
            open_sqlite(place)

    assert verify(place)
    open_sqlite(place).close()


def test_ledger_in_use_is_not_brought_forward(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs that have it open know the older schema."""
    process = program("store = open_sqlite(path); say('open'); sys.stdin.readline(); store.close()", place)
    assert "open" == line(process)
    with monkeypatch.context() as newer:
        newer.setattr(schema, "VERSION", 2)
        with pytest.raises(StoreBusy, match="end them first"):
            open_sqlite(place)
    finish(process)


def test_tables_take_every_word_of_the_records() -> None:
    """A state, phase or disposition that the records know is one that the tables take."""
    import attrs

    from turnctl.ledger.rows import KINDS

    text = "".join(script for _, script in schema.migrations())
    for kind, of in KINDS.items():
        table = text.split(f"CREATE TABLE {kind} (")[1].split("\n);")[0]
        attrs.resolve_types(of)
        for field in attrs.fields(of):
            words = [one for one in getattr(field.type, "__args__", ()) if isinstance(one, str)]
            if f"{field.name} IN ('" in table:
                listed = table.split(f"{field.name} IN (")[1].split(")")[0]

                assert [] == [word for word in words if f"'{word}'" not in listed], (kind, field.name)


def test_ledger_that_is_being_made_is_not_lost(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks for a ledger in the moment in which another process makes it opens that one."""
    path, look = quick / "new.db", os.path.lexists

    def late(name: str) -> bool:
        found = look(name)
        if name == str(path) and not found:
            monkeypatch.undo()
            init(path)
        return found

    monkeypatch.setattr(os.path, "lexists", late)
    open_sqlite(path).close()

    assert verify(path)


def test_ledger_is_opened_by_a_path(tmp_path: Path) -> None:
    """A ``Path`` does as well as its text; anything else is refused before a file is made."""
    tmp_path.chmod(0o700)
    with turnctl.open_ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.submit("acme", "t")

    assert (tmp_path / "ledger.sqlite").exists()
    with pytest.raises(BadArgument, match="a path of str"):
        turnctl.open_ledger(b"x")  # type: ignore[arg-type]
