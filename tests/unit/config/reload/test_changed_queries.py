"""Reload of SQL flows: what counts as another query, on one node and between nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.comparison import compare
from mm2.config.reload.fingerprint import differing, digest, terms
from mm2.config.reload.sources import named_files, take
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import change_lines, diff, flow, read

KEY = "SELECT value AS key FROM records"
ONE = f"mm2.sql.one.topics = a,b\nmm2.sql.one.query = {KEY}\n"
TWO = f"mm2.sql.two.topics = a\nmm2.sql.two.query = {KEY}\n"
FILE = "mm2.sql.one.topics = a\nmm2.sql.one.file = one.sql\n"
ENVIRONMENT = (
    "config.providers = env\n"
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
)


def changes(directory: Path, old: str, new: str) -> list[str]:
    found = flow(diff(directory, old, new))
    assert found.update_mode is UpdateMode.FLOW
    return change_lines(found.changes, directory)


def test_another_query_restarts_the_flow(tmp_path: Path) -> None:
    assert changes(tmp_path, ONE, ONE.replace("a,b", "a, b, c").replace(KEY, f"{KEY} WHERE true")) == [
        "mm2.properties:5: mm2.sql.one.topics = a, b, c (was a, b)",
        f"mm2.properties:6: mm2.sql.one.query = {KEY} WHERE true (was {KEY})",
    ]


def test_the_notation_of_topics_does_not_matter(tmp_path: Path) -> None:
    assert diff(tmp_path, ONE, ONE.replace("a,b", "a, b")).changed == ()


def test_added_and_removed_queries(tmp_path: Path) -> None:
    assert changes(tmp_path, "", ONE) == [
        "mm2.properties:5: mm2.sql.one.topics = a, b (was not set)",
        f"mm2.properties:6: mm2.sql.one.query = {KEY} (was not set)",
    ]
    assert changes(tmp_path, ONE + TWO, ONE) == [
        "mm2.properties: mm2.sql.two.topics removed (was a (after one))",
        f"mm2.properties: mm2.sql.two.query removed (was {KEY})",
    ]


def test_what_dead_letters_contain_restarts_the_flow(tmp_path: Path) -> None:
    """The lanes have to take it over."""
    assert changes(tmp_path, ONE, f"{ONE}mm2.sql.one.dead.letters = full\n") == [
        "mm2.properties:7: mm2.sql.one.dead.letters = full (was not set)",
    ]


def test_the_order_of_names_matters(tmp_path: Path) -> None:
    assert changes(tmp_path, ONE + TWO, TWO + ONE) == [
        "mm2.properties:5: mm2.sql.two.topics = a (was a (after one))",
        "mm2.properties:7: mm2.sql.one.topics = a, b (after two) (was a, b)",
    ]


def test_tasks_max_restarts_a_flow_with_queries(tmp_path: Path) -> None:
    assert changes(tmp_path, ONE, ONE + "A->B.tasks.max = 2\n") == [
        "mm2.properties:7: A->B.tasks.max = 2 (was 1)",
    ]
    assert flow(diff(tmp_path, "", "tasks.max = 2\n")).update_mode is UpdateMode.RUNNING
    assert flow(diff(tmp_path, ONE, ONE + "topics = a\n")).update_mode is UpdateMode.RUNNING


def test_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text(KEY)
    before = read(tmp_path, FILE)
    (tmp_path / "one.sql").write_text(f"{KEY} -- the same\n")
    assert compare(before, read(tmp_path, FILE)).changed == ()
    (tmp_path / "one.sql").write_text(f"{KEY} WHERE true\n")
    after = read(tmp_path, FILE)
    found = flow(compare(before, after))
    assert found.update_mode is UpdateMode.FLOW
    assert change_lines(found.changes, tmp_path) == [
        "mm2.properties:6: mm2.sql.one.file = one.sql (the content of the file changed)"
    ]
    own, other = (terms(one, one.settings.flows[0]) for one in (before, after))
    assert own["mm2.sql.one.file"] != other["mm2.sql.one.file"]
    assert own["mm2.sql.one.file"].startswith("sha256 ")


def test_nodes_can_have_the_same_query_at_different_places(tmp_path: Path) -> None:
    for name in ("one.sql", "other.sql"):
        (tmp_path / name).write_text(KEY)
    one, other = (read(tmp_path, FILE.replace("one.sql", name)) for name in ("one.sql", "other.sql"))
    assert terms(one, one.settings.flows[0]) == terms(other, other.settings.flows[0])


def test_order_is_a_term_of_all_nodes(tmp_path: Path) -> None:
    one, other = (read(tmp_path, lines) for lines in (ONE + TWO, TWO + ONE))
    assert terms(one, one.settings.flows[0]) != terms(other, other.settings.flows[0])


def test_secrets_of_a_query_are_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ENVIRONMENT + ONE.replace("value AS key", "sha2('${env:MM2_SALT}', 256) AS key")
    monkeypatch.setenv("MM2_SALT", "sesame")
    before = read(tmp_path, lines)
    monkeypatch.setenv("MM2_SALT", "sesame-seed")
    after = read(tmp_path, lines)
    (change,) = flow(compare(before, after)).changes
    assert change.update_mode is UpdateMode.FLOW
    assert "sesame" not in str(change)
    assert "sesame" not in str(terms(after, after.settings.flows[0]))


HIDDEN = (ONE + TWO).replace("sql.one", "sql.passwords")


@pytest.mark.parametrize(
    ("lines", "other", "key"),
    [
        pytest.param(HIDDEN, HIDDEN.replace(KEY, f"{KEY} WHERE true", 1), "passwords.query", id="query"),
        pytest.param(HIDDEN, HIDDEN.replace("a,b", "a,c"), "passwords.topics", id="topics"),
        pytest.param(TWO + HIDDEN.removesuffix(TWO), HIDDEN, "passwords.topics", id="order"),
        pytest.param(
            "mm2.sql.token.topics = a\nmm2.sql.token.transform = shop:mask\n",
            "mm2.sql.token.topics = a\nmm2.sql.token.transform = shop:other\n",
            "token.transform",
            id="transform",
        ),
        pytest.param(
            ONE.replace("value AS key", "regexp_replace(value, 'password=.*', '') AS key"),
            ONE.replace("value AS key", "regexp_replace(value, 'password=.+', '') AS key"),
            "one.query",
            id="text",
        ),
    ],
)
def test_differences_are_found_although_the_text_looks_secret(tmp_path: Path, lines: str, other: str, key: str) -> None:
    one, two = (read(tmp_path, text) for text in (lines, other))
    mine, theirs = (terms(read, read.settings.flows[0]) for read in (one, two))
    assert f"mm2.sql.{key}" in differing(mine, theirs)
    assert digest(mine) != digest(theirs)
    assert "password=" not in str(mine)


def test_the_same_query_in_other_lines(tmp_path: Path) -> None:
    one, other = (read(tmp_path, lines) for lines in (ONE, ONE.replace("FROM", "\\\n    FROM")))
    assert terms(one, one.settings.flows[0]) == terms(other, other.settings.flows[0])


def test_topics_of_a_name_that_looks_secret_are_shown(tmp_path: Path) -> None:
    assert changes(tmp_path, "", HIDDEN)[:2] == [
        "mm2.properties:5: mm2.sql.passwords.topics = a, b (was not set)",
        "mm2.properties:6: mm2.sql.passwords.query = [hidden] (was not set)",
    ]


def test_files_of_queries_are_watched(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text(KEY)
    reading = read(tmp_path, FILE.replace("mm2.sql", "A->B.mm2.sql") + ONE.replace("one", "two"))
    assert named_files(reading.file, tmp_path) == (tmp_path / "one.sql",)
    path = tmp_path / "mm2.properties"
    path.write_text(CLUSTERS + FILE.replace("one.sql", "missing.sql") + "mm2.sql.two.file =\n")
    assert set(take(path).signature) == {path, tmp_path / "missing.sql"}
