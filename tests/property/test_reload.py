"""Edits of a file, compared with an oracle that knows only the edits.

Exactly the edits are reported, no secret is shown, and nodes whose files have the same meaning agree.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.load import load_file
from mm2.config.reload.change_lines import changed_lines
from mm2.config.reload.changes import Change, FileDiff
from mm2.config.reload.comparison import ParsedConfig, compare
from mm2.config.reload.fingerprint import differing, digest, terms
from mm2.node.reload.file_watch import LONGEST_S, SETTLE_S, SettleTimer

BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
    "B->A.enabled": "true",
}
SECRET = "sesame-open-"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'

# Keys with two values that are not the default, the place of their change, and its update mode. Repeated here,
# so that a mistake in the table of keys is detected.
KEYS: dict[str, tuple[tuple[str, str], str, UpdateMode]] = {
    "A->B.tasks.max": (("2", "3"), "A->B", UpdateMode.RUNNING),
    "A->B.topics": (("a,b", "c"), "A->B", UpdateMode.RUNNING),
    "B->A.topics.exclude": (("x", "y.*"), "B->A", UpdateMode.RUNNING),
    "B->A.groups": (("g", "h"), "B->A", UpdateMode.RUNNING),
    "A->B.refresh.topics.interval.seconds": (("5", "6"), "A->B", UpdateMode.RUNNING),
    "A->B.sync.topic.acls.enabled": (("false", "FALSE"), "A->B", UpdateMode.RUNNING),
    "A->B.offset.lag.max": (("0", "7"), "A->B", UpdateMode.FLOW),
    "A->B.replication.policy.internal.topic.separator.enabled": (("false", "FALSE"), "A->B", UpdateMode.FLOW),
    "A->B.mm2.offset.translation.window": (("64", "128"), "A->B", UpdateMode.FLOW),
    "A->B.mm2.start": (("latest", "2026-11-01T00:00:00Z"), "A->B", UpdateMode.FLOW),
    "B.session.timeout.ms": (("9000", "8000"), "A->B", UpdateMode.FLOW),
    "A.session.timeout.ms": (("9000", "8000"), "B->A", UpdateMode.FLOW),
    "A->B.source.consumer.fetch.max.wait.ms": (("5", "6"), "A->B", UpdateMode.FLOW),
    "A->B.producer.override.batch.size": (("5", "6"), "A->B", UpdateMode.FLOW),
    "listeners": (("http://:1", "http://:2"), "", UpdateMode.NODE),
    "mm2.lanes": (("2", "3"), "", UpdateMode.NODE),
    "spark.master": (("local[1]", "local[2]"), "", UpdateMode.NODE),
    "spark.ssl.keyPassword": ((f"{SECRET}1", f"{SECRET}2"), "", UpdateMode.NODE),
    "mm2.log.level": (("DEBUG", "ERROR"), "", UpdateMode.RUNNING),
    "my.own.key": (("1", "2"), "idle", UpdateMode.NOTHING),
    "my.password": ((f"{SECRET}1", f"{SECRET}2"), "idle", UpdateMode.NOTHING),
}
NODES_MAY_DIFFER = {"listeners", "mm2.lanes", "spark.master", "spark.ssl.keyPassword", "mm2.log.level", "my.own.key"}

files = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, (values, _, _) in KEYS.items()})


def meaning(key: str, file: dict[str, str]) -> str | None:
    value = file.get(key)
    return value.lower() if value is not None and key.endswith(".enabled") else value


def lay_out(file: dict[str, str], shuffle: st.DataObject | None = None) -> str:
    lines = [f"{key} = {value}" for key, value in {**BASE, **file}.items()]
    if shuffle is not None:
        lines = shuffle.draw(st.permutations(lines))
        lines = [
            line.replace(" = ", shuffle.draw(st.sampled_from((" = ", ":", "=", "  =\\\n   "))), 1)
            + shuffle.draw(st.sampled_from(("", "\n", "\n# a comment", "\n! tasks.max = 9\n\n")))
            for line in lines
        ]
    return "\n".join(lines) + "\n"


def read(directory: str, text: str) -> ParsedConfig:
    path = Path(directory) / "mm2.properties"
    path.write_text(text, "iso-8859-1")
    loaded, file = load_file(path)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    assert file is not None
    return ParsedConfig(settings=loaded.settings, file=file)


def reported_changes(diff: FileDiff) -> dict[str, tuple[str, Change]]:
    by_place = [(str(flow.flow), change) for flow in diff.changed for change in flow.changes]
    by_place += [("", change) for change in diff.node] + [("idle", change) for change in diff.idle]
    assert len({(place, change.key) for place, change in by_place}) == len(by_place), "reported twice"
    return {change.key: (place, change) for place, change in by_place}


@settings(max_examples=60)
@given(old=files, new=files)
def test_exactly_the_edits_are_reported(old: dict[str, str], new: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        before, now = read(directory, lay_out(old)), read(directory, lay_out(new))
    diff = compare(before, now)
    found = reported_changes(diff)
    edited = {key for key in KEYS if meaning(key, old) != meaning(key, new)}
    rewritten = {key for key in KEYS if old.get(key) != new.get(key)} - edited
    assert set(found) == edited | rewritten
    lines = lay_out(new).splitlines()
    for key, (place, change) in found.items():
        if key in edited:
            assert (place, change.update_mode) == KEYS[key][1:]
        else:
            assert (place, change.update_mode) == ("idle", UpdateMode.NOTHING)
        assert (change.line is None) == (key not in new)
        assert change.line is None or lines[change.line - 1].startswith(f"{key} = ")
    assert diff.update_mode == max((change.update_mode for _, change in found.values()), default=UpdateMode.NOTHING)
    assert diff.says_the_same == (not found)
    text = "\n".join(changed_lines(diff, diff.node)) + repr(diff)
    assert SECRET not in text


@settings(max_examples=30)
@given(file=files, data=st.data())
def test_order_and_notation_change_nothing(file: dict[str, str], data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        before, now = read(directory, lay_out(file)), read(directory, lay_out(file, data))
    assert compare(before, now).says_the_same
    assert compare(now, before).says_the_same
    for mine, theirs in zip(before.settings.flows, now.settings.flows, strict=True):
        assert digest(terms(before, mine)) == digest(terms(now, theirs))


@settings(max_examples=60)
@given(mine=files, theirs=files)
def test_nodes_agree_if_and_only_if_their_flow_settings_are_equal(mine: dict[str, str], theirs: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        readings = read(directory, lay_out(mine)), read(directory, lay_out(theirs))
    for number, name in enumerate(("A->B", "B->A")):
        terms_of = [terms(reading, reading.settings.flows[number]) for reading in readings]
        different = {key for key in KEYS if KEYS[key][1] == name and meaning(key, mine) != meaning(key, theirs)}
        names = differing(*terms_of)
        assert len(names) == len(different)
        assert (digest(terms_of[0]) == digest(terms_of[1])) == (not different)
        assert SECRET not in str(terms_of)
        assert not NODES_MAY_DIFFER & set(names)


@given(polls=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 5.0, allow_nan=False)), min_size=1, max_size=60))
def test_only_changes_that_last_are_read(polls: list[tuple[str, float]]) -> None:
    """The oracle keeps every poll and decides from the whole history."""
    path = Path("f")
    unrest = SettleTimer({path: "a"})
    handled, now = "a", 0.0
    history: list[tuple[float, str]] = []
    for content, pause in polls:
        now += pause
        history.append((now, content))
        over = unrest.is_over({path: content}, now)
        other = _last_run(history, lambda seen, good=handled: seen != good)  # type: ignore[misc]
        same = _last_run(history, lambda seen, last=content: seen == last)  # type: ignore[misc]
        rested = content != handled and now - same >= SETTLE_S
        assert over == (content != handled and (rested or now - other >= LONGEST_S))
        if over:
            unrest.handled({path: content})
            handled, history = content, []


def _last_run(history: list[tuple[float, str]], holds: Callable[[str], bool]) -> float:
    """Return since when ``holds`` has been true without interruption, up to the last poll."""
    since = history[-1][0]
    for when, seen in reversed(history):
        if not holds(seen):
            break
        since = when
    return since
