"""Which key an unknown one was meant to be: never one about something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.config.checks import key_scopes
from mm2.config.checks.meant_keys import is_about_selection, meant_key
from mm2.config.checks.unknown_keys import AS_JAVA
from tests.unit.config.files import loaded

ALL = key_scopes.ALONE.candidates


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topic", "topics"),
        ("topcs", "topics"),
        ("Topics", "topics"),
        ("TOPICS", "topics"),
        ("topics.includes", "topics"),
        ("topics.included", "topics"),
        ("topic.include", "topics"),
        ("include.topics", "topics"),
        ("topics.inclde", "topics"),
        ("topics.regex", "topics"),
        ("topic.whitelist", "topics"),
        ("topics.allowlist", "topics"),
        ("whitelist", "topics"),
        ("topic.blacklist", "topics.exclude"),
        ("topics.blacklists", "topics.exclude"),
        ("topics.denylist", "topics.exclude"),
        ("topics.excludes", "topics.exclude"),
        ("topics.exclud", "topics.exclude"),
        ("topics.ecxlude", "topics.exclude"),
        ("topicsExclude", "topics.exclude"),
        ("topics_exclude", "topics.exclude"),
        ("topics-exclude", "topics.exclude"),
        ("topics.exclude.regex", "topics.exclude"),
        ("exclude.topics", "topics.exclude"),
        ("topics.ignore", "topics.exclude"),
        ("blacklist", "topics.exclude"),
        ("group", "groups"),
        ("consumer.groups", "groups"),
        ("groups.includes", "groups"),
        ("group.whitelist", "groups"),
        ("group.blacklist", "groups.exclude"),
        ("group.exclude", "groups.exclude"),
        ("groups.exclusions", "groups.exclude"),
        ("consumer.groups.exclude", "groups.exclude"),
        ("config.property.blacklist", "config.properties.exclude"),
        ("config.properties.excludes", "config.properties.exclude"),
        ("topic.config.exclude", "config.properties.exclude"),
        ("sync.topics.configs.enabled", "sync.topic.configs.enabled"),
        ("sync.topic.config.enabled", "sync.topic.configs.enabled"),
        ("sync.topic.acl.enabled", "sync.topic.acls.enabled"),
        ("refresh.topic.interval.seconds", "refresh.topics.interval.seconds"),
        ("refresh.group.interval.seconds", "refresh.groups.interval.seconds"),
        ("task.max", "tasks.max"),
        ("something.else", None),
        ("topics.rename", None),
    ],
)
def test_other_names(name: str, meant: str | None) -> None:
    assert meant_key(name, ALL) == meant


SUBJECTS = ("topic", "group", "config", "acl")
EXCLUDE = ("exclude", "blacklist", "denylist", "exclusion")


@given(
    st.sampled_from(sorted(key_scopes.ALONE.candidates)),
    st.sampled_from([*SUBJECTS, "topics", "groups", "configs", "acls", "include", "includes", "whitelist", *EXCLUDE]),
    st.data(),
)
def test_no_guess_is_about_something_else(known: str, other: str, data: st.DataObject) -> None:
    """One word of a known key is replaced."""
    words = known.split(".")
    words[data.draw(st.integers(0, len(words) - 1))] = other
    name = ".".join(words)
    meant = meant_key(name, ALL - {name})
    if meant is None or name in ALL:
        return
    for subject in ("group", "acl"):
        assert (subject in name) <= (subject in meant), f"{name} → {meant}"
    assert any(word in name for word in EXCLUDE) == ("exclude" in meant), f"{name} → {meant}"


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("mm2.sql.mask.topic", "did you mean mm2.sql.mask.topics?"),
        ("mm2.sql.mask.queries", "did you mean mm2.sql.mask.query?"),
        ("mm2.sql.mask.sql", "did you mean mm2.sql.mask.query?"),
        ("mm2.sql.mask.path", "did you mean mm2.sql.mask.file?"),
        ("mm2.sql.mask.function", "did you mean mm2.sql.mask.transform?"),
        ("mm2.sql.query", "did you mean mm2.sql.NAME.query?"),
        ("mm2.slq.mask.query", "did you mean mm2.sql.mask.query?"),
        ("A->B.mm2sql.mask.query", "did you mean A->B.mm2.sql.mask.query?"),
        ("mm2.sqls.mask.query", "did you mean mm2.sql.mask.query?"),
        ("sql.mask.query", "did you mean mm2.sql.mask.query?"),
        ("A->B.mm2.sql.mask.topic", "did you mean A->B.mm2.sql.mask.topics?"),
        ("A->B.sql.mask.query", "did you mean A->B.mm2.sql.mask.query?"),
        (
            "mm2.sql.mask.colour",
            "write one of mm2.sql.mask.topics, mm2.sql.mask.query, mm2.sql.mask.file, mm2.sql.mask.transform, "
            "mm2.sql.mask.dead.letters",
        ),
    ],
)
def test_near_misses_of_queries(tmp_path: Path, key: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"{key} = x\n").problems
    assert not problem.is_warning
    assert problem.fix == f"{fix}\n{AS_JAVA}"


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("topic.blacklist", "did you mean topics.exclude?"),
        ("topics.blacklists", "did you mean topics.exclude?"),
        ("A->B.topic.blacklist", "did you mean A->B.topics.exclude?"),
        (
            "A.topic.blacklist",
            "did you mean A->X.topics.exclude or X->A.topics.exclude for one flow, or topics.exclude for all?",
        ),
        ("topics.rename", "find the key that was meant in docs/reference/configuration.md, and write that one"),
        (
            "A->B.consumer.groups.skip",
            "find the key that was meant in docs/reference/configuration.md, and write that one",
        ),
        ("completely.different", "remove the line"),
    ],
)
def test_no_line_about_topics_or_groups_is_to_be_removed(tmp_path: Path, key: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"{key} = secret.*\n").problems
    assert problem.fix.split("\n")[0] == fix


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        ("topic.blacklist = secret.*", ["mm2.*\\\\.internal, .*\\\\.replica, __.*"]),
        ("topic.blacklist = secret.*, __.*", ["mm2.*\\\\.internal, .*\\\\.replica"]),
        ("A->B.groups.blacklists = tmp", ["console-consumer-.*, connect-.*, __.*"]),
        ("A->B.groups.blacklists = tmp, console-consumer-.*, connect-.*, __.*", []),
        ("A->B.groups.blacklists = tmp\ngroups.exclude = old-.*", []),
    ],
)
def test_a_fix_says_what_a_list_of_exclusions_no_longer_excludes(tmp_path: Path, lines: str, more: list[str]) -> None:
    """The list replaces the default, so that internal topics of the brokers would be replicated unnoticed."""
    (problem,) = loaded(tmp_path, f"{lines}\n").problems
    assert problem.fix.split("\n")[1:] == [
        *(f"it replaces the default, so that what matches {one} is no longer excluded" for one in more),
        AS_JAVA,
    ]


def test_what_is_about_a_selection() -> None:
    assert is_about_selection("my.topik.list")
    assert is_about_selection("mm2.sql.mask")
    assert not is_about_selection("producer.acks")


def test_a_key_that_is_set_is_not_set_again(tmp_path: Path) -> None:
    """Of two equal lines only the last has an effect: the exclusions of the other would be lost."""
    (problem,) = loaded(tmp_path, "topics.exclude = secret.*\ntopic.blacklist = tmp.*\n").problems
    assert problem.fix == f"topics.exclude is in line 5: correct that line, then remove this one\n{AS_JAVA}"
