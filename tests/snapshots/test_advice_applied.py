"""What a ``fix:`` tells a user to do is done here, for every problem of the files in ``config/bad``.

Afterwards the problem is gone, there is no new one, nothing is excluded, queried or protected less than before, and no
more topics are replicated unless the fix says which. It is done from the words of the fix where they say which lines to
write, else as in ``NAME.repairs`` beside the file (`repairs`). What a file cannot show is in `ELSEWHERE`.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from mm2.config.checks import unknown_keys
from mm2.config.clients.client_reader import ClientReader
from mm2.config.flows import FlowProperties, read_flow
from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.grammar.properties import Entry, parse
from mm2.config.load import load, read
from mm2.config.settings import FlowSettings
from mm2.core.settings.client import IsolationLevel
from tests.snapshots import repairs
from tests.snapshots.repairs import Repair
from tests.snapshots.test_config_problems import FILES

AS_JAVA = unknown_keys.AS_JAVA
ROOT = FILES.parents[3]
TOPICS = (
    "orders",
    "users",
    "payments",
    "secret",
    "secret.keys",
    "__schemas",
    "tmp",
    "tmp-1",
    "x",
    "internal",
    "pii.names",
)
GROUPS = ("billing", "test-x", "tmp", "old-1", "orders", "connect-x")
SELECTS = re.compile(r"(topics|groups)(\.exclude)?$")
"""Keys that select topics or groups."""

ALL_TOPICS = re.compile("all other topics are replicated|replicate every topic")
"""What a fix says if topics are replicated after it that it does not name."""

KEY = r"(?!org\.|com\.)[A-Za-z][\w.>-]*\.[\w.-]+|topics|groups"
IS_KEY = re.compile(KEY)

FOLLOWS = re.compile(
    "no flow is enabled"  # the error before kept the check from running
    "|has no bootstrap.servers"  # the user has to give the address of a new cluster
    "|so Java does not start the flow|encrypted private key, but|the class cannot be created or configured"
    "|records of aborted transactions"  # what exactly-once needs, once it is asked for
    "|nodes do not authenticate"  # they did not connect before
    "|has no effect without mm2.zookeeper|requires mm2.zookeeper|mm2.election is kafka"  # the other keys of a group
    "|has no effect: transaction.boundary is poll"
    "|must end with a semicolon|must have the login module|is a PEM file, but|requires .*which is not set"
    "|contains no cipher suite|contains a certificate that cannot be read|contains no -----BEGIN"
    "|a PEM (truststore|keystore) has no password"  # the fix names the line to remove
    "|alias .* contains characters that Kafka does not allow|s(as|s)l\\.\\* has no effect because|not a class of Kafka"
    "|as mm2.spark.insecure is set"  # the warning that says what this means
    "|is a Strimzi KafkaConnector resource"  # what is left after only one is in the file
    # the value of a key that had no effect before
    "|there is no query for these|so the query applies to no topic"
    "|changes nothing and drops nothing|not a built-in class"
)
"""What can come to light when a fix gives a line its effect, with a fix of its own."""


ELSEWHERE = {
    "run it with the command line of MirrorMaker 1:": "the files are not replaced; test_mirror1.py runs both commands",
    "run this connector in Kafka Connect: mm2 only replicates between Kafka clusters": "it is another program",
}
"""Fixes that leave the file as it is, with the reason."""

PLACEHOLDERS = (
    ("FILE with a PEM file that contains the private key", "FILE", "../pem/identity.pem"),
    ("FILE with a PEM file that contains the certificates", "FILE", "../pem/ca.pem"),
    ("FILE and NAME@REALM", '"FILE" principal="NAME@REALM"', '"../secrets/rack" principal="mm2@EXAMPLE.COM"'),
    ("PASSWORD with the password of the private key", "= PASSWORD", "= open sesame"),
    ("USER and PASSWORD", 'username="USER" password="PASSWORD"', 'username="mm2" password="p"'),
    ("TOKEN", "TOKEN", "5f2b7d0c93a4e1867d0f4c5b6a79818e2d3c4b5a69788796a5b4c3d2e1f00112"),
    ("the secret of the cluster", "SECRET", "0123456789abcdef"),
    ("these lines", "(copy the value)", "sesame"),
    ("these lines", "(the topics of the MirrorSourceConnector)", "orders"),
    ("these lines", "(SSL or SASL_SSL)", "SSL"),
    ("lines of this form", "(according to tls and authentication)", "SSL"),
    ("lines of this form", "(topicsPattern)", "orders"),
    ("lines of this form", "(groupsPattern)", "billing"),
    ("lines of this form", "(include)", "orders"),
)
"""What a fix asks to replace, by the words with which it asks, and with what the test replaces it."""


@dataclass(frozen=True)
class Lines:
    """The logical lines of a file, by the number of their first physical line."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, path: Path) -> Lines:
        return cls.of_text(path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("iso-8859-1"))

    @classmethod
    def of_text(cls, content: str) -> Lines:
        found: list[Entry] = []
        text = content.replace("\r\n", "\n").split("\n")
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
    """Return ``text`` without the lines of ``key``."""
    found = [entry for entry in Lines.of_text(text).entries if entry.key == key]
    for entry in found:
        text = with_line(text, entry, "")
    return text


def filled(fix: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield ``lines`` with what the fix asks for in the place of its placeholders."""
    for line in lines:
        for words, placeholder, value in PLACEHOLDERS:
            if words in fix:
                line = line.replace(placeholder, value)  # noqa: PLW2901
        yield line


def done_by_hand(text: str, repair: Repair) -> str:
    """Return ``text`` as in an example."""
    if repair.copied:
        return Path(repair.copied).read_text("iso-8859-1")
    if "" in repair.written:
        return repair.written[""]
    for old, new in repair.replaced:
        assert old in text, f"{old} is not in the file: {repair}"
        text = text.replace(old, new)
    for key in repair.removed:
        text = without_key(text, key)
    for key, value in repair.lines:
        text = with_key(text, key, value)
    return text


def whole_file(fix: str) -> Iterator[str]:
    """Yield the file that ``fix`` says to write instead."""
    if fix.startswith("start from a copy of mm2.properties.example"):
        yield (ROOT / "mm2.properties.example").read_text("iso-8859-1")
    if re.search("(write|or write) .*lines( of this form.*)?:\n", fix):
        lines = fix.partition("lines")[2].partition(":\n")[2].split("\n")
        numbered = (line.replace("host:port", f"h{number}.example.com:9092") for number, line in enumerate(lines))
        yield "\n".join((*filled(fix, numbered), ""))


def applied(text: str, entry: Entry, fix: str) -> Iterator[str]:
    """Yield ``text`` with each alternative of ``fix`` done, as far as it can be done by replacing lines."""
    first, *copied = fix.replace("host:port", "h.example.com:9092").split("\n")
    written = re.split(r"\s*[=:]\s*", entry.source, maxsplit=1)
    value = written[1] if len(written) == 2 else ""

    def set_value(new: str) -> str:
        return with_line(text, entry, f"{entry.key} = {new}")

    if re.search(r"^remove (the|this) line|, (or|then) remove (the|this) (line(?! of )|one)", first):
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
    if copied and copied[-1] == AS_JAVA:
        yield with_key(text, "mm2.unknown.keys", "warn")
    if (match := re.search(rf"^add ({KEY}) = ([^,]*?)(?:, or .*)?$", first)) and not match[2].startswith("the "):
        added = with_key(text, match[1], match[2])
        for line in copied:
            if removed := re.fullmatch(r"\s*remove (\S+)", line):
                added = without_key(added, removed[1])
        yield added
    if match := re.search(r"(?:^|, or )remove (?:this line or|the line of) (\S+)$", first):
        if "this line or" in first:
            yield with_line(text, entry, "")
        yield without_key(text, match[1])
    if match := re.search(r"(?:^|, )(?:and )?(?:write|add)(?: these lines[^:]*)?:$", first):
        added = text
        for line in filled(fix, copied):
            key, _, written_value = line.strip().partition(" = ")
            added = with_key(added, key, written_value)
        yield added
    if match := re.search(r"^add (.*topics\.exclude) = (.*), the rest of the default", first):
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
    """What of a file may not become weaker. ``flows`` are those that are enabled."""

    flows: frozenset[str]
    replicated: frozenset[tuple[str, str]]
    groups: frozenset[tuple[str, str]]
    queries: int
    protection: frozenset[str]


def protection(flow: FlowSettings) -> Iterator[str]:
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


def effect(path: Path) -> Effect:
    """Return what the flows of a file do, with defaults in the place of values that are errors."""
    problems = ProblemLog(str(path))
    file = read(path, (), problems)
    flows = []
    if file is not None:
        reader = ClientReader(clusters=file.clusters, problems=problems)
        flows = [read_flow(FlowProperties.of(file.properties, one), one, reader, path.parent) for one in file.flows]
    enabled = [flow for flow in flows if flow.enabled]
    return Effect(
        flows=frozenset(str(flow.flow) for flow in enabled),
        replicated=frozenset(
            (str(flow.flow), topic) for flow in enabled for topic in TOPICS if flow.topic_filter(topic)
        ),
        groups=frozenset((str(flow.flow), group) for flow in enabled for group in GROUPS if flow.group_filter(group)),
        queries=sum(len(flow.queries.in_order) for flow in enabled),
        protection=frozenset(line for flow in enabled for line in protection(flow)),
    )


def says(problem: Problem, was: Effect, flow: str, name: str) -> bool:
    """Return whether a fix says that ``flow`` selects ``name`` after it.

    It names the flow to enable or a list with a pattern that matches, says that all others are selected, or renames a
    cluster. An error means that nothing was replicated, so that only what other lines select can become more, unless no
    line was read.
    """
    if "the whole file" in problem.rule or ALL_TOPICS.search(problem.fix) or f"{flow}.enabled" in problem.fix:
        return True
    if flow not in was.flows and (not problem.is_warning or "choose another alias" in problem.fix):
        return True
    if not problem.is_warning and SELECTS.search(problem.key or "topics"):
        return True
    return any(matches(word, name) for word in re.split(r"[\s,\"']+", problem.fix))


def matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


def named(problems: tuple[Problem, ...]) -> set[tuple[str | None, str]]:
    return {(problem.key, problem.rule) for problem in problems}


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the files once, as some fixes create or change others beside them, and undo it (`in_place`)."""
    directory = tmp_path_factory.mktemp("advice")
    shutil.copytree(FILES.parent, directory / "snapshots" / "config", ignore=shutil.ignore_patterns("*.txt"))
    (directory / "golden").symlink_to(ROOT / "tests" / "golden")
    return directory / "snapshots" / "config" / "bad"


@pytest.fixture(autouse=True)
def in_example_directory(monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    monkeypatch.chdir(copies)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.syspath_prepend(Path("../classes").resolve())


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.properties")))
def test_every_fix_of_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = repairs.read(Path(name).with_suffix(".repairs"))
    unused = list(examples)
    faults: list[str] = []
    left: list[str] = []
    for problem in problems_of(name):
        first = problem.fix.split("\n", maxsplit=1)[0]
        own = [one for one in examples if (one.key, one.fix) == (problem.key or "", first)]
        unused = [one for one in unused if one not in own]
        results = [*from_its_words(name, problem), *as_in_examples(name, problem, own, monkeypatch)]
        faults += filter(None, results)
        if not results and first not in ELSEWHERE:
            left.append(problem.fix)
    assert not faults, "\n".join(faults)
    assert not left, "fixes that nothing applies: " + "\n".join(left)
    assert not unused, f"examples of fixes that no problem has: {unused}"


def from_its_words(name: str, problem: Problem) -> Iterator[str]:
    """Yield for each alternative of the fix what is wrong after it; empty: nothing."""
    if problem.line is None:
        for text in whole_file(problem.fix):
            yield judged(problem, name, as_it_is(Path(name).read_text("iso-8859-1")), text)
        if add := re.fullmatch(rf"add ({KEY}) = (\S+)", problem.fix):
            text = Path(name).read_text("iso-8859-1")
            yield judged(problem, name, as_it_is(text), with_key(text, add[1], add[2]))
    elif problem.file == name:
        text = alone(name, problem)
        old = as_it_is(text)
        entry = Lines.of(Path(name)).at(problem.line)
        for after in applied(text, entry, problem.fix):
            yield judged(problem, name, old, after)


def as_in_examples(
    name: str, problem: Problem, examples: Iterable[Repair], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    for repair in examples:
        text = alone(name, problem)
        old = as_it_is(text)
        with monkeypatch.context() as changed, in_place(repair, changed):
            yield judged(problem, name, old, done_by_hand(text, repair))


def alone(name: str, problem: Problem) -> str:
    """Return the file without the other lines that have problems, if the problem is there without them."""
    path = Path(name)
    if problem.line is None:
        return path.read_text("iso-8859-1")
    file = Lines.of(path)
    if problem.file == name:
        entry = file.at(problem.line)
    else:
        entry = next(one for one in file.entries if one.key == problem.key)
    others = {file.at(one.line).line for one in problems_of(name) if one.line is not None and one.file == name}
    text = file.text(frozenset(one.line for one in file.entries if one.line not in others) | {entry.line, 1})
    if (problem.key, problem.rule) in named(as_it_is(text)[0]):
        return text
    text = file.text()
    return text if (problem.key, problem.rule) in named(as_it_is(text)[0]) else path.read_text("iso-8859-1")


def written(text: str) -> Path:
    """Write a file in the directory of the others, for relative paths, and return its path."""
    path = Path("advice.properties")
    path.write_text(text, "iso-8859-1")
    return path


@contextmanager
def in_place(repair: Repair, changed: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the variables, write the files and add the directories of ``repair``, and forget them at the end."""
    for variable, value in repair.environment.items():
        changed.setenv(variable, value)
    for directory in repair.directories:
        changed.syspath_prepend(Path(directory).resolve())
    former: dict[Path, str | None] = {}
    for path, content in repair.written.items():
        if path:
            file = Path(path)
            former[file] = file.read_text("utf-8") if file.exists() else None
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, "utf-8")
    forget_classes()
    yield
    for file, text in former.items():
        if text is None:
            file.unlink()
        else:
            file.write_text(text, "utf-8")
    forget_classes()


def forget_classes() -> None:
    """Let Python import the modules of the examples again, as their files have changed."""
    for module in [one for one in sys.modules if re.match("(acme|my|msk_iam)", one)]:
        del sys.modules[module]
    for directory in Path("..").rglob("__pycache__"):
        shutil.rmtree(directory)
    importlib.invalidate_caches()


@cache
def problems_of(name: str) -> tuple[Problem, ...]:
    """Return the problems of an example. Most are asked for once for each of them."""
    return load(Path(name)).problems


@cache
def as_it_is(text: str) -> tuple[tuple[Problem, ...], Effect]:
    """Return what is `observed` before a fix, with no example in place. Many fixes have the same text before them."""
    return observed(text)


def observed(text: str) -> tuple[tuple[Problem, ...], Effect]:
    """Return the problems of a file, and what its flows do."""
    path = written(text)
    return load(path).problems, effect(path)


def judged(problem: Problem, name: str, before: tuple[tuple[Problem, ...], Effect], after: str) -> str:
    """Return what is wrong with the file ``after`` a fix; empty: nothing."""
    problems, old = before
    left, now = observed(after.replace("SELECT … FROM", "SELECT upper(value) AS value FROM"))
    if not problem.is_warning and "mm2.unknown.keys = warn" in after:
        left = tuple(one for one in left if not one.is_warning or one.key != problem.key)
    new = {(key, rule) for key, rule in named(left) - named(problems) if not FOLLOWS.search(rule)}
    if problem.line is None:  # a file of another kind, whose keys nobody looked at
        new -= {(key, "unknown property, ignored") for key, _ in new}
    wrong = []
    if named((problem,)) - named(problems):
        wrong.append("the problem was not there before it")
    if named((problem,)) & named(left):
        wrong.append("the problem is still there")
    if new:
        wrong.append(f"new problems: {new}")
    gained = (*(now.replicated - old.replicated), *(now.groups - old.groups))
    if more := sorted((flow, one) for flow, one in gained if not says(problem, old, flow, one)):
        wrong.append(f"replicates more: {more}")
    if now.queries < old.queries:
        wrong.append("a query is gone")
    if weaker := {line for line in old.protection - now.protection if line.split(":")[0] in now.flows}:
        wrong.append(f"weaker: {sorted(weaker)}")
    if not wrong:
        return ""
    return f"{name}: {problem.headline}\n    fix: {problem.fix}\n    after it: {'; '.join(wrong)}\n{after}"
