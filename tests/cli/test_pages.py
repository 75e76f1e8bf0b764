"""Pages: read off commands with any version of click, and written so that no letter of theirs acts by itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from turnctl.cli.command import Command
from turnctl.cli.duration import Duration
from turnctl.cli.pages.__main__ import docs, main, man
from turnctl.cli.pages.markdown import reference
from turnctl.cli.pages.model import Example, Group, Option, Page
from turnctl.cli.pages.plain import help_text, section
from turnctl.cli.pages.reading import page_of
from turnctl.cli.pages.roff import escaped, man_page
from turnctl.cli.pages.tree import pages

HELP = ".starts with a dot; \\fBnot bold\\fR - and *stars* | bars."
ODD = Page(
    name="turnctl odd",
    summary="Show what is odd, such as \\n and 'quotes'.",
    synopsis="turnctl odd [OPTIONS] FILE",
    examples=(Example("turnctl odd --match '^a.*\\.b~$' | cat", ".a dot first, and a `tick`"),),
    steps=(".TH is no heading here.",),
    groups=(
        Group(
            "Options",
            (
                Option(("-m", "--match"), "RE|GLOB", HELP, "a-b", ("ODD_M",)),
                Option(("--no-match",), None, "'Quoted' first; <b>no tag</b>."),
            ),
        ),
    ),
    tables=(("Words", ((".SH", "'tis a word"), ("a|b", "two\\"))),),
    codes=(("0", "it is odd"), ("2", "wrong use")),
    notes=("...and so on.", "'\\\" no comment"),
)  # fmt: skip


@click.command(
    "sample",
    cls=Command,
    short_help="Do what a sample does.",
    examples=[("turnctl sample x", "one")],
    steps=["One thing\n   after the other."],
    tables=[("Exit status", [("0", "done")]), ("Words", [("a", "b")])],
    help="First\n   line.\n\n    Second.",
)
@click.argument("file", required=False)
@click.option("--grace", type=Duration(), default="5s", show_default=True, metavar="DUR", help="How long.")
@click.option("--no-grace", is_flag=True, help="Not at all.")
@click.option("--only", type=click.Choice(["a", "b"]), multiple=True, help="Which.")
@click.option("-n", "--number", type=click.IntRange(min=1), help="How many.")
@click.option("--log/--no-log", default=True, show_default=True, help="Keep it.")
@click.option("--secret", hidden=True, help="Not shown.")
def sample(**_: object) -> None:
    """Nothing."""


def test_a_page_is_read_off_a_command() -> None:
    """All of it is the command's own; what is hidden stays so; groups are as options say, or as they are."""
    page = page_of(sample, "turnctl sample")
    groups = {group.title: [one.term for one in group.options] for group in page.groups}
    options = {one.names[-1]: one for group in page.groups for one in group.options}

    assert ("Do what a sample does.", "turnctl sample [OPTIONS] [FILE]") == (page.summary, page.synopsis)
    assert (("First line.", "Second."), ("One thing after the other.",)) == (page.notes, page.steps)
    assert ((("0", "done"),), (("Words", (("a", "b"),)),)) == (page.codes, page.tables)
    assert ["--only a|b", "-n, --number N"] == groups["Options"]
    assert ["--grace DUR", "--no-grace"] == groups["How long"]
    assert ["--log, --no-log"] == groups["Output"]
    assert "-h, --help" == groups["Common options"][-1]
    assert ("default: 5s", "env: TURNCTL_SAMPLE_GRACE") == options["--grace"].facts
    assert ("log", None, True) == (
        options["--no-log"].default,
        options["--number"].default,
        options["--only"].is_repeatable,
    )
    assert "--secret" not in str(page)


def test_help_fits_its_width() -> None:
    """No line of text is longer than a terminal is wide, and no call that is to be copied is broken."""
    for page in pages():
        calls = {f"  {one.call}" for one in page.examples} | {f"  # {one.what}" for one in page.examples}
        for width in (78, 60):
            long = [one for one in help_text(page, width).splitlines() if len(one) > width and one not in calls]
            assert [] == [
                one
                for one in long
                if " " in one.strip() and not one.strip().startswith(("-", "Usage:", "(env:", "env:"))
            ], page.name


def test_words_stand_beside_what_they_mean() -> None:
    """In two columns; a long word on a line of its own; nothing where there is nothing."""
    rows = [("a", "one two three four five"), ("x" * 40, "six")]

    assert f"T:\n  a  one two three four\n     five\n  {'x' * 40}\n     six\n" == section("T", rows, 25)
    assert "" == section("T", [], 25)


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        (".SH x", "\\&.SH x"),
        ("'br", "\\(aqbr"),
        ("a\\fBb", "a\\efBb"),
        ("--no-log", "\\-\\-no\\-log"),
        ('say "a"', "say \\(dqa\\(dq"),
        ("^~`", "\\(ha\\(ti\\(ga"),
    ],
)
def test_no_text_is_a_request(text: str, roff: str) -> None:
    """Dots and quotes at the beginning, backslashes, hyphens: each is shown as the letter that it is."""
    assert roff == escaped(text)


def test_no_line_of_a_man_page_begins_by_chance() -> None:
    """What begins with a dot is a request of ours, whatever the texts are."""
    ours = {".TH", ".SH", ".SS", ".PP", ".TP", ".IP", ".nf", ".fi", ".RS", ".RE"}

    for page in [ODD, *pages()]:
        lines = man_page(page, ((".f", ".g"),)).splitlines()
        assert [] == [line for line in lines if line.startswith(("'", ".")) and line.split()[0] not in ours]


def shown(page: Page, tmp_path: Path) -> str:
    """The page as people see it."""
    path = tmp_path / "page.1"
    path.write_text(man_page(page, (("a.b", "kept"),), "2026-11-30"), "utf-8")
    if shutil.which("mandoc"):
        argv = ["mandoc", "-T", "utf8", "-O", "width=100"]
    elif shutil.which("groff"):
        argv = ["groff", "-man", "-ww", "-Tutf8", "-rLL=100n", "-P-c"]
    else:
        pytest.skip("neither mandoc nor groff is on this machine, so no man page was looked at")
    text = subprocess.run([*argv, str(path)], capture_output=True, text=True, timeout=30, check=True)

    assert "" == text.stderr
    return re.sub("\x1b\\[[0-9;]*m|.\x08", "", text.stdout)


def test_a_man_page_shows_every_letter(tmp_path: Path) -> None:
    """As it was written, hyphens and quotes of a call as they are typed."""
    text = shown(ODD, tmp_path)

    for part in (
        "turnctl odd --match '^a.*\\.b~$' | cat",
        ".a dot first, and a `tick`",
        HELP,
        "'Quoted' first; <b>no tag</b>.",
        ".TH is no heading here.",
        ".SH",
        "two\\",
        "...and so on.",
        "'\\\" no comment",
        "--no-match",
    ):
        assert part in text
    titles = [line for line in text.splitlines() if re.fullmatch("[A-Z ]+", line)]
    assert ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "OPTIONS", "OPERATION", "WORDS", "EXIT STATUS"] == titles[:8]
    assert ["ENVIRONMENT", "FILES", "SEE ALSO"] == titles[8:]


def test_man_pages_are_without_fault(tmp_path: Path) -> None:
    """Of every command one, by its name; mandoc and groff find nothing to say about them."""
    files = man(tmp_path, "2026-11-30")

    assert {page.file for page in pages()} == {path.stem for path in files}
    tools = {"mandoc": ["-T", "lint", "-W", "warning"], "groff": ["-man", "-ww", "-z"]}
    there = {name: options for name, options in tools.items() if shutil.which(name)}
    if not there:
        pytest.skip("neither mandoc nor groff is on this machine, so no man page was checked")
    for name, options in there.items():
        done = subprocess.run(
            [name, *options, *map(str, files)], capture_output=True, text=True, timeout=60, check=False
        )
        assert ("", "") == (done.stdout, done.stderr)


def test_the_version_and_the_day_are_in_the_footer() -> None:
    """The day only where there is one, so that a page does not change by itself."""
    from turnctl import __version__

    number = __version__.replace("-", "\\-")

    assert f'.TH "TURNCTL\\-ODD" 1 "" "turnctl {number}" "turnctl manual"\n' in man_page(ODD)
    assert ' 1 "2026-11-30" "turnctl' in man_page(ODD, day="2026-11-30")


def test_markdown_means_nothing_by_chance() -> None:
    """Stars, bars and tags are letters; a bar in a cell ends no cell."""
    text = reference(ODD)

    assert "\\*stars\\* \\| bars." in text
    assert "\\<b\\>no tag" in text
    assert "| `-m`, `--match RE\\|GLOB` |" in text
    assert {4} == {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| `-")}


def test_the_script_brings_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check says what is not, with status 1, and writes nothing; without it that is written."""
    (tmp_path / "cli.md").write_text("# Commands\n")

    assert 1 == main(["docs", str(tmp_path), "--check"])
    assert [tmp_path / "cli.md"] == list(tmp_path.iterdir())
    assert 0 == main(["docs", str(tmp_path)])
    assert 0 == main(["docs", str(tmp_path), "--check"])
    assert [] == docs(tmp_path)
    assert 2 == main(["docs"])
    assert f"stale: {tmp_path}/cli/ps.md\n" in capsys.readouterr().out
