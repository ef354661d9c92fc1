"""What a ``fix:`` tells a user to do is done here, for every problem of the files in ``config/bad``.

Afterwards the problem is gone, there is no new one, nothing is excluded, queried or protected less than before, and no
more topics are replicated unless the fix says so. What cannot be done by replacing lines, or is about something outside
the file, is in `BY_HAND`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.grammar.properties import Entry, parse
from mm2.config.load import load
from mm2.config.settings import NodeSettings
from mm2.core.naming.names import Flow
from mm2.core.settings.client import IsolationLevel
from tests.snapshots.test_config_problems import FILES

TOPICS = ("orders", "users", "payments", "secret", "secret.keys", "tmp", "tmp-1", "x", "internal", "pii.names")
GROUPS = ("billing", "test-x", "tmp", "old-1", "orders")
ENLARGES = re.compile(
    "all other topics are replicated|replicate every topic|the rest of the default|list the|split there"
)
"""What a fix says if more is replicated after it."""

SELECTS = re.compile(
    r"(topics|groups)(\.exclude)?( =|\?$|$|,? or )|^did you mean .*enabled\?$|enabled = true|^move the comment"
    "|for each flow to run"
)
"""Fixes that name what is selected after them: topics, groups, or a flow."""

KEY = r"(?!org\.|com\.)[A-Za-z][\w.>-]*\.[\w.-]+|topics|groups"
IS_KEY = re.compile(KEY)

FOLLOWS = re.compile(
    "no flow is enabled"  # the error before kept the check from running
    "|has no bootstrap.servers|is not a server"  # the user has to give the address of a new cluster
    "|so Java does not start the flow|encrypted private key, but|the class cannot be created or configured"
    "|records of aborted transactions"  # what exactly-once needs, once it is asked for
    "|nodes do not authenticate"  # they did not connect before
    "|has no effect without mm2.zookeeper|requires mm2.zookeeper|mm2.election is kafka"  # the other keys of a group
    "|has no effect: transaction.boundary is poll"
    "|must end with a semicolon|must have the login module|is a PEM file, but|requires .*which is not set|is PEM, but"
    "|contains no cipher suite|contains a certificate that cannot be read|contains no -----BEGIN"
    "|must not be set together"
    "|a PEM (truststore|keystore) has no password"  # the fix names the line to remove
    # the value of a key that had no effect before
    "|there is no query for these|changes nothing and drops nothing|not a built-in class"
)
"""What can come to light when a fix gives a line its effect, with a fix of its own."""


BY_HAND = re.compile(
    # files, stores, modules and variables outside the file
    r"certificate|private key|keystore|PEM|keytool|password with which|type of the store|openssl|USER|NAME@REALM|TOKEN"
    r"|^(create|install|set MM2_|give the path|check the path|extend allowlist)|PYTHONPATH|reference$|absolute paths"
    r"|\.py|module:|methods|^correct |acme|inherit|async def|with def|of the module|\$\{|config\.providers|Provider"
    # a decision of the user
    r"|^choose|^disable|^enable a flow|^make sure|^find the key|^keep running|^list |topics to replicate from the list"
    r"|another name|address of this machine|any interface|signs tokens|OAuthBearer"
    # expressions and queries: tests/unit/config/regex and tests/unit/config/sql
    r"|^add the (missing|closing)|^repeat |^write \.\*|^write \\\\|parenthesis|bracket|raw string|the flag"
    r"|ORDER BY|GROUP BY"
    r"|FROM records|column|condition|expressions over|derive the value|set one of|remove it|with a list of topics"
    # values that the fix describes
    r"|above \d|below \d|host:port for each|^write listeners|^write \\u|twice$|from the list$|verification\.algorithms"
    r"|one of the two lines|this line or|this line, or the lines|to its own line$|^add \w+( and \w+)? to clusters"
    r"|^write (one|SSL) |^add listeners|with the secret of the cluster"
)
"""Fixes that are done by hand, as they need what the file does not have."""


@dataclass(frozen=True)
class Lines:
    """The logical lines of a file, by the number of their first physical line."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, path: Path) -> Lines:
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        found: list[Entry] = []
        text = content.decode("iso-8859-1").replace("\r\n", "\n").split("\n")
        number = 0
        while number < len(text):
            size = 1
            while text[number : number + size][-1].endswith("\\") and number + size < len(text):
                size += 1
            source = "\n".join(text[number : number + size])
            parsed = parse(source.encode("iso-8859-1"), ProblemLog("line"))
            found += (
                Entry(file="", line=number + 1, key=one.key, raw=one.raw, value=one.value, source=source)
                for one in parsed.values()
            )
            number += size
        return cls(tuple(found))

    def text(self, only: frozenset[int] | None = None) -> str:
        """Return the file, with empty lines in the place of those that are not in ``only``."""
        last = max((entry.line + entry.source.count("\n") for entry in self.entries), default=0)
        lines = [""] * last
        for entry in self.entries:
            if only is None or entry.line in only:
                for offset, source in enumerate(entry.source.split("\n")):
                    lines[entry.line - 1 + offset] = source
        return "\n".join(lines) + "\n"

    def at(self, line: int) -> Entry:
        return next(entry for entry in reversed(self.entries) if entry.line <= line)


def with_line(text: str, entry: Entry, new: str) -> str:
    """Return ``text`` with ``new`` in the place of the lines of ``entry``."""
    assert text.count(entry.source) >= 1, entry
    lines = text.split("\n")
    size = entry.source.count("\n") + 1
    return "\n".join((*lines[: entry.line - 1], new, *[""] * (size - 1), *lines[entry.line - 1 + size :]))


def with_key(text: str, key: str, value: str) -> str:
    """Return ``text`` with ``key = value`` in the place of the line of ``key``, or at the end."""
    parsed = parse(text.encode("iso-8859-1"), ProblemLog("text"))
    if key in parsed:
        entry = parsed[key]
        lines = text.split("\n")
        size = entry.source.rstrip("\n").count("\n") + 1
        return "\n".join(
            (*lines[: entry.line - 1], f"{key} = {value}", *[""] * (size - 1), *lines[entry.line - 1 + size :])
        )
    return f"{text.rstrip(chr(10))}\n{key} = {value}\n"


def without_key(text: str, key: str) -> str:
    """Return ``text`` without the line of ``key``."""
    return "\n".join("" if re.match(rf"{re.escape(key)}\s*[=:]", line) else line for line in text.split("\n"))


def applied(text: str, entry: Entry, fix: str) -> Iterator[str]:
    """Yield ``text`` with each alternative of ``fix`` done, as far as it can be done by replacing lines."""
    first, *copied = fix.replace("host:port", "h.example.com:9092").split("\n")
    written = re.split(r"\s*[=:]\s*", entry.source, maxsplit=1)
    value = written[1] if len(written) == 2 else ""

    def set_value(new: str) -> str:
        return with_line(text, entry, f"{entry.key} = {new}")

    if re.search(r"^remove (the|this) line|, (or|then) remove (the|this) (line|one)", first):
        yield with_line(text, entry, "")
    if (match := re.search(r"^did you mean ([^ ?]+)\?$", first)) and IS_KEY.fullmatch(match[1]):
        last = entry.source.rpartition("=")[2].strip()
        meant_true = re.fullmatch(r"[AB\s>-]*", last) or last.startswith("B>")
        yield with_line(text, entry, f"{match[1]} = {'true' if meant_true else last}")
    elif match is not None:
        yield set_value(match[1])
    if match := re.search(rf"^(?:move the comment to its own line, and )?write ({KEY}|clusters) = (.*)$", first):
        for new in re.split(
            rf" or (?:{KEY}) = ", re.split(r", or |(?<=true) without| to exclude only| \(docs", match[2])[0]
        ):
            yield with_key(text, match[1], new)
    elif match := re.match(rf"write ({KEY})(?:$| for |,? or )", first):
        for name in (match[1], *re.findall(rf",? or ({KEY})(?:$| for )", first)):
            other = "B" if "A->" in name or "->A" in name else "A"
            key = re.sub(r"X(?=->)|(?<=->)X", other, name)
            yield with_key(with_line(text, entry, ""), key, value)
    elif match := re.match(r"write ([\w.]+)(?:$|,? (?:or|for|to) )", first):
        yield from (set_value(new) for new in (match[1], *re.findall(r", or (\w+) (?:for|to)", first)))
    if (match := re.search(rf"^add ({KEY}) = ([^,]*?)(?:, or .*)?$", first)) and not match[2].startswith("the "):
        added = with_key(text, match[1], match[2])
        for line in copied:
            if removed := re.fullmatch(r"\s*remove (\S+)", line):
                added = without_key(added, removed[1])
        yield added
    if match := re.search(r"^add (.*topics\.exclude) = (.*), the rest of the default$", first):
        yield with_key(text, match[1], match[2])
    if match := re.match(r"write each backslash twice: ", first):
        lost = {one[-1] for one in first.removeprefix(match[0]).split("; in SQL")[0].split(", ")}
        doubled = re.sub(rf"(?<!\\)\\([{re.escape(''.join(lost))}])", r"\\\\\1", entry.source)
        yield with_line(text, entry, doubled.replace("'", "r'", 1) if "raw string" in first else doubled)
    if match := re.match(r"replace element (\d+), by (\S+) if a dot was meant, else by (\S+)$", first):
        for new in match.group(2, 3):
            elements = value.split(",")
            elements[int(match[1]) - 1] = new
            yield set_value(", ".join(elements))
    if match := re.match(r"write the elements of both lines in line (\d+), and remove this line", first):
        below = text.split("\n")[int(match[1]) - 1]
        rest = with_line(text, entry, "").split("\n")
        rest[int(match[1]) - 1] = f"{below}, {value}"
        yield "\n".join(rest)


@dataclass(frozen=True)
class Effect:
    """What of a file may not become weaker."""

    replicated: frozenset[tuple[str, str]]
    excluded: frozenset[tuple[str, str]]
    queries: int
    protection: frozenset[str]


def protection(settings: NodeSettings, flows: set[Flow]) -> Iterator[str]:
    for flow in (one for one in settings.flows if one.flow in flows):
        for side, client in (("source", flow.clients.source_consumer), ("target", flow.clients.record_producer)):
            if "SSL" in client.security_protocol.name.split("_"):
                yield f"{flow.flow}: {side} is encrypted"
            if client.sasl is not None:
                yield f"{flow.flow}: {side} authenticates"
        if flow.clients.fetch.isolation_level is IsolationLevel.READ_COMMITTED:
            yield f"{flow.flow}: only committed records"
        if flow.worker.exactly_once:
            yield f"{flow.flow}: exactly once"
        if flow.clients.produce.idempotent:
            yield f"{flow.flow}: idempotent"


def effect(settings: NodeSettings, flows: set[Flow]) -> Effect:
    enabled = [flow for flow in settings.flows if flow.enabled and flow.flow in flows]
    return Effect(
        replicated=frozenset(
            (str(flow.flow), topic) for flow in enabled for topic in TOPICS if flow.topic_filter(topic)
        ),
        excluded=frozenset(
            (str(flow.flow), name)
            for flow in enabled
            for name, chosen in (
                *((topic, flow.topic_filter(topic)) for topic in TOPICS),
                *((f"group {group}", flow.group_filter(group)) for group in GROUPS),
            )
            if not chosen
        ),
        queries=sum(len(flow.queries.in_order) for flow in enabled),
        protection=frozenset(protection(settings, flows)),
    )


def named(problems: tuple[Problem, ...]) -> set[tuple[str | None, str]]:
    return {(problem.key, problem.rule) for problem in problems}


@pytest.fixture(autouse=True)
def in_example_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.syspath_prepend(FILES.parent / "classes")


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.properties")))
def test_every_fix_of_a_file(name: str, tmp_path: Path) -> None:
    faults: list[str] = []
    left: list[str] = []
    for problem in load(Path(name)).problems:
        if problem.line is None or problem.key is None or problem.file != name:
            continue  # about the whole file or another one
        results = list(in_its_file(name, problem, tmp_path))
        faults += filter(None, results)
        if not results and not BY_HAND.search(problem.fix):
            left.append(problem.fix)
    assert not faults, "\n".join(faults)
    assert not left, "fixes that nothing applies: " + "\n".join(left)


def in_its_file(name: str, problem: Problem, tmp_path: Path) -> Iterator[str]:
    """Yield for each alternative of the fix what is wrong after it; empty: nothing."""
    file = Lines.of(Path(name))
    assert problem.line is not None
    entry = file.at(problem.line)
    troubled = {file.at(other.line).line for other in load(Path(name)).problems if other.line is not None}
    alone = file.text(frozenset(one.line for one in file.entries if one.line not in troubled) | {entry.line, 1})
    path = Path(f"advice-{tmp_path.name}.properties")  # in the same directory, for relative paths
    try:
        path.write_text(alone, "iso-8859-1")
        if (problem.key, problem.rule) not in named(load(path).problems):
            alone = file.text()
            path.write_text(alone, "iso-8859-1")
        before = load(path)
        for text in applied(alone, entry, problem.fix):
            path.write_text(text.replace("SELECT … FROM", "SELECT upper(value) AS value FROM"), "iso-8859-1")
            after = load(path)
            yield from judged(problem, before.problems, before.settings, after.problems, after.settings, name)
    finally:
        path.unlink(missing_ok=True)


def judged(
    problem: Problem,
    problems: tuple[Problem, ...],
    was: NodeSettings | None,
    left: tuple[Problem, ...],
    now: NodeSettings | None,
    name: str,
) -> Iterator[str]:
    title = f"{name}: {problem.headline}\n    fix: {problem.fix}"
    wrong = []
    if named((problem,)) & named(left):
        wrong.append("the problem is still there")
    if new := {(key, rule) for key, rule in named(left) - named(problems) if not FOLLOWS.search(rule)}:
        wrong.append(f"new problems: {new}")
    if was is not None and now is not None:
        both = {flow.flow for flow in was.flows} & {flow.flow for flow in now.flows}
        old, current = effect(was, both), effect(now, both)
        says = ENLARGES.search(problem.fix) or SELECTS.search(problem.fix)
        if not says and (more := current.replicated - old.replicated):
            wrong.append(f"replicates more: {sorted(more)}")
        if not says and (less := old.excluded - current.excluded):
            wrong.append(f"excludes less: {sorted(less)}")
        if current.queries < old.queries:
            wrong.append("a query is gone")
        if weaker := old.protection - current.protection:
            wrong.append(f"weaker: {sorted(weaker)}")
    yield "" if not wrong else f"{title}\n    after it: {'; '.join(wrong)}"
