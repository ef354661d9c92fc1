"""Edits of a file, judged by an oracle that knows only what was edited: what is told is what was done, no secret shows,
and nodes whose files mean the same agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.config.agreement import differing, digest, terms
from mm2.config.change_lines import changed_lines
from mm2.config.changes import Change, FileDiff
from mm2.config.comparison import Reading, compare
from mm2.config.load import load_file
from mm2.config.reach import Reach
from mm2.node.file_watch import LONGEST_S, SETTLE_S, Unrest

BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
    "B->A.enabled": "true",
}
SECRET = "sesame-open-"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'

# Keys with two values that are not the default, where a change of them is told, and how deep it goes: written down here
# anew, so that a slip in the table of keys shows.
KEYS: dict[str, tuple[tuple[str, str], str, Reach]] = {
    "A->B.tasks.max": (("2", "3"), "A->B", Reach.RUNNING),
    "A->B.topics": (("a,b", "c"), "A->B", Reach.RUNNING),
    "B->A.topics.exclude": (("x", "y.*"), "B->A", Reach.RUNNING),
    "B->A.groups": (("g", "h"), "B->A", Reach.RUNNING),
    "A->B.refresh.topics.interval.seconds": (("5", "6"), "A->B", Reach.RUNNING),
    "A->B.sync.topic.acls.enabled": (("false", "FALSE"), "A->B", Reach.RUNNING),
    "A->B.offset.lag.max": (("0", "7"), "A->B", Reach.FLOW),
    "A->B.replication.policy.internal.topic.separator.enabled": (("false", "FALSE"), "A->B", Reach.FLOW),
    "A->B.mm2.offset.translation.window": (("64", "128"), "A->B", Reach.FLOW),
    "B.session.timeout.ms": (("9000", "8000"), "A->B", Reach.FLOW),
    "A.session.timeout.ms": (("9000", "8000"), "B->A", Reach.FLOW),
    "A->B.source.consumer.fetch.max.wait.ms": (("5", "6"), "A->B", Reach.FLOW),
    "A->B.producer.override.batch.size": (("5", "6"), "A->B", Reach.FLOW),
    "listeners": (("http://:1", "http://:2"), "", Reach.NODE),
    "mm2.lanes": (("2", "3"), "", Reach.NODE),
    "spark.master": (("local[1]", "local[2]"), "", Reach.NODE),
    "spark.ssl.keyPassword": ((f"{SECRET}1", f"{SECRET}2"), "", Reach.NODE),
    "mm2.log.level": (("DEBUG", "ERROR"), "", Reach.RUNNING),
    "my.own.key": (("1", "2"), "idle", Reach.NOTHING),
    "my.password": ((f"{SECRET}1", f"{SECRET}2"), "idle", Reach.NOTHING),
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
            + shuffle.draw(st.sampled_from(("", "\n", "\n# a word", "\n! tasks.max = 9\n\n")))
            for line in lines
        ]
    return "\n".join(lines) + "\n"


def read(directory: str, text: str) -> Reading:
    path = Path(directory) / "mm2.properties"
    path.write_text(text, "iso-8859-1")
    loaded, file = load_file(path)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    assert file is not None
    return Reading(settings=loaded.settings, file=file)


def told(diff: FileDiff) -> dict[str, tuple[str, Change]]:
    by_place = [(str(flow.flow), change) for flow in diff.changed for change in flow.changes]
    by_place += [("", change) for change in diff.node] + [("idle", change) for change in diff.idle]
    assert len({(place, change.key) for place, change in by_place}) == len(by_place), "told twice"
    return {change.key: (place, change) for place, change in by_place}


@settings(max_examples=60)
@given(old=files, new=files)
def test_what_is_told_is_what_was_edited(old: dict[str, str], new: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        before, now = read(directory, lay_out(old)), read(directory, lay_out(new))
    diff = compare(before, now)
    found = told(diff)
    edited = {key for key in KEYS if meaning(key, old) != meaning(key, new)}
    rewritten = {key for key in KEYS if old.get(key) != new.get(key)} - edited
    assert set(found) == edited | rewritten
    lines = lay_out(new).splitlines()
    for key, (place, change) in found.items():
        if key in edited:
            assert (place, change.reach) == KEYS[key][1:]
        else:
            assert (place, change.reach) == ("idle", Reach.NOTHING)
        assert (change.line is None) == (key not in new)
        assert change.line is None or lines[change.line - 1].startswith(f"{key} = ")
    assert diff.reach == max((change.reach for _, change in found.values()), default=Reach.NOTHING)
    assert diff.says_the_same == (not found)
    text = "\n".join(changed_lines(diff, diff.node)) + repr(diff)
    assert SECRET not in text


@settings(max_examples=30)
@given(file=files, data=st.data())
def test_order_and_writing_change_nothing(file: dict[str, str], data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        before, now = read(directory, lay_out(file)), read(directory, lay_out(file, data))
    assert compare(before, now).says_the_same
    assert compare(now, before).says_the_same
    for mine, theirs in zip(before.settings.flows, now.settings.flows, strict=True):
        assert digest(terms(before, mine)) == digest(terms(now, theirs))


@settings(max_examples=60)
@given(mine=files, theirs=files)
def test_nodes_agree_if_and_only_if_nothing_of_a_flow_differs(mine: dict[str, str], theirs: dict[str, str]) -> None:
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


@given(looks=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 5.0, allow_nan=False)), min_size=1, max_size=60))
def test_a_change_that_lasts_is_read_and_only_that(looks: list[tuple[str, float]]) -> None:
    """The oracle keeps all looks, and judges from the whole history."""
    path = Path("f")
    unrest = Unrest({path: "a"})
    handled, now = "a", 0.0
    history: list[tuple[float, str]] = []
    for content, pause in looks:
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
    """Since when what ``holds`` has held without a break, up to the last look."""
    since = history[-1][0]
    for when, seen in reversed(history):
        if not holds(seen):
            break
        since = when
    return since
