from __future__ import annotations

from io import StringIO

import pytest

from mm2.config.grammar.problem_report import summary, write_problems
from mm2.config.grammar.problems import Problem, ProblemLog, SourceSpan, to_copy
from mm2.config.grammar.properties import Entry


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def problems() -> tuple[Problem, ...]:
    found = ProblemLog("mm2.properties")
    found.warning("no flow is enabled, so nothing is replicated", "add A->B.enabled = true")
    found.error("missing, so there is nothing to replicate", "add clusters = A, B", key="clusters")
    return found.in_order()


def test_errors_come_first_and_each_problem_has_its_fix() -> None:
    out = StringIO()
    write_problems(problems(), out)
    assert out.getvalue() == (
        "mm2.properties: error: clusters: missing, so there is nothing to replicate\n"
        "    fix: add clusters = A, B\n"
        "mm2.properties: warning: no flow is enabled, so nothing is replicated\n"
        "    fix: add A->B.enabled = true\n"
    )


def test_no_part_of_a_problem_controls_the_terminal() -> None:
    found = ProblemLog("f")
    entry = Entry(file="f", line=3, key="k", raw="a\x1b[2Jb", value="a\x1b[2Jb")
    found.within(
        entry,
        SourceSpan(file="g", line=4, column=7, excerpt=("c\x1b[2Jd",)),
        "is wr\x1bong",
        "correct \x1b it",
        is_warning=True,
    )
    found.error("is wrong, too", "correct it", at=entry)
    out = StringIO()
    write_problems(found.in_order(), out)
    assert out.getvalue().count("\\x1b") == 4
    assert "\x1b" not in out.getvalue()


def test_the_line_of_a_place_follows_unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    found = ProblemLog("f")
    entry = Entry(file="f", line=3, key="k", raw="first second third", value="first second third")
    place = SourceSpan(file="g", line=4, column=7, excerpt=("first second third", "      ^"))
    found.within(entry, place, "is wrong", "correct it", is_warning=True)
    found.error("is wrong, too", "correct it", at=entry)
    assert [(one.file, one.line) for one in found.in_order()] == [("f", 3), ("g", 4)]
    out = Terminal()
    write_problems(found.in_order()[1:], out)
    assert out.getvalue() == (
        "g:4: warning: k: column 7: is wrong\n    first second third\n          ^\n    fix: correct it\n"
    )
    assert str(found.in_order()[1]) == "g:4: warning: k: column 7: is wrong (fix: correct it)"


def test_problems_of_another_file_are_not_those_of_a_line() -> None:
    found = ProblemLog("f")
    entry = Entry(file="f", line=3, key="k", raw="g", value="g")
    found.within(entry, SourceSpan(file="g", line=3), "is wrong", "correct it", is_warning=False)
    assert not found.has_error_at(entry)
    assert found.failed


@pytest.mark.parametrize("columns", ["10", "44"])
def test_lines_are_wrapped_to_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = Terminal()
    write_problems(problems(), out)
    assert max(map(len, out.getvalue().splitlines())) <= max(40, int(columns))
    assert " ".join(out.getvalue().split()).startswith("mm2.properties: error: clusters: missing, so there is nothing")
    assert "\n    fix: add clusters = A, B\n" in out.getvalue()


def test_text_to_copy_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command, line = "keytool -list -storepass PASSWORD > the-ca.pem", "A.ssl.truststore.location = /etc/the own/ca.pem"
    found = ProblemLog("f")
    found.error("r", f"replace PASSWORD with the password of the store, and run:{to_copy(command)}\nwrite {line}")
    out = Terminal()
    write_problems(found.in_order(), out)
    assert out.getvalue() == (
        "f: error: r\n"
        "    fix: replace PASSWORD with the\n"
        "        password of the store, and run:\n"
        f"           {command}\n"
        f"         write {line}\n"
    )
    (problem,) = found.in_order()
    assert str(problem) == (
        f"f: error: r (fix: replace PASSWORD with the password of the store, and run: {command}; write {line})"
    )


def test_lines_of_a_file_are_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = StringIO()
    write_problems(problems(), out)
    assert len(out.getvalue().splitlines()) == 4


def test_summary() -> None:
    assert summary(problems()) == "1 error, 1 warning"
    assert summary(problems()[:1] * 2) == "2 errors, 0 warnings"
