from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mm2.config.checks.unknown_keys import AS_JAVA
from mm2.config.grammar.problems import Problem
from mm2.config.load import load
from mm2.config.sql.topic_queries import TopicQueries
from mm2.core.settings.row_query import ResultColumn, RowQuery, RowTransform
from tests.unit.config import files

UPPER = "SELECT upper(CAST(value AS STRING)) AS value FROM records"
ENVIRONMENT = (
    "config.providers = env\n"
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
)
MASK = f"mm2.sql.mask.topics = orders.*, pay\nmm2.sql.mask.query = {UPPER}\n"


def problems(directory: Path, lines: str) -> list[Problem]:
    return [
        one for one in files.loaded(directory, lines).problems if "mm2.sql" in (one.key or "") or one.column is not None
    ]


def messages(directory: Path, lines: str) -> list[str]:
    return [str(one).replace(f"{directory}/", "") for one in problems(directory, lines)]


def queries(directory: Path, lines: str) -> TopicQueries:
    return files.flow(directory, lines).queries


def test_a_flow_without_queries(tmp_path: Path) -> None:
    flow = files.flow(tmp_path)
    assert not flow.queries.in_order
    assert flow.query_of("orders") is None


def test_query_of_all_flows(tmp_path: Path) -> None:
    for flow in files.settings(tmp_path, MASK).flows:
        (query,) = flow.queries.in_order
        assert isinstance(query.action, RowQuery)
        assert query.action.columns == {ResultColumn.VALUE: "upper(CAST(value AS STRING))"}
        assert (query.name, str(query)) == ("mask", "mask sets value")
        assert [flow.query_of(topic) is query for topic in ("orders-1", "pay", "payments")] == [True, True, False]


def test_flows_can_have_different_queries_for_the_same_topics(tmp_path: Path) -> None:
    lines = f"mm2.sql.mask.topics = a\nA->B.mm2.sql.mask.query = {UPPER}\nA->B.mm2.sql.x.topics = b\n"
    lines += f"mm2.sql.x.query = {UPPER}\n"
    one, other = files.settings(tmp_path, lines).flows
    assert [query.name for query in one.queries.in_order] == ["mask", "x"]
    assert not other.queries.in_order
    enabled = problems(tmp_path, lines + "B->A.enabled = true\n")
    assert [(found.line, found.key) for found in enabled] == [(5, "mm2.sql.mask.topics"), (8, "mm2.sql.x.query")]


@pytest.mark.parametrize(
    ("query", "hides"),
    [
        ("SELECT * FROM records", False),
        ("SELECT timestamp + INTERVAL 1 HOUR AS timestamp FROM records", False),
        (UPPER, True),
        ("SELECT sha2(key, 256) AS key FROM records", True),
        ("SELECT array() AS headers FROM records", True),
        ("SELECT * FROM records WHERE offset > 5", True),
    ],
)
def test_what_a_query_hides_is_not_shown_by_default(tmp_path: Path, query: str, *, hides: bool) -> None:
    lines = f"mm2.sql.mask.topics = orders\nmm2.sql.mask.query = {query}\n"
    assert queries(tmp_path, lines).in_order[0].hides_values == hides
    assert not queries(tmp_path, f"{lines}A->B.mm2.sql.mask.dead.letters = full\n").in_order[0].hides_values
    assert queries(tmp_path, f"{lines}mm2.sql.mask.dead.letters = without-values\n").in_order[0].hides_values


def test_a_transform_can_hide_anything(tmp_path: Path) -> None:
    lines = "mm2.sql.mask.topics = orders\nmm2.sql.mask.transform = shop:mask\n"
    assert queries(tmp_path, lines).in_order[0].hides_values


def test_dead_letters_of_a_query_have_two_forms(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, f"{MASK}mm2.sql.mask.dead.letters = none\n")
    assert "mm2.sql.mask.dead.letters = none: must be full or without-values" in message


def test_heartbeats_are_never_transformed(tmp_path: Path) -> None:
    flow = files.flow(tmp_path, MASK.replace("orders.*, pay", ".*"))
    assert flow.query_of("heartbeats") is None
    assert flow.queries.of_topic("heartbeats") is not None


def test_the_first_name_of_the_file_wins(tmp_path: Path) -> None:
    lines = (
        "mm2.sql.b.query = SELECT 1 AS key FROM records\nmm2.sql.a.topics = x\nmm2.sql.b.topics = x.*\n"
        "A->B.mm2.sql.a.query = SELECT 2 AS key FROM records\n"
    )
    found = queries(tmp_path, lines)
    assert [one.name for one in found.in_order] == ["b", "a"]
    chosen = found.of_topic("x")
    assert chosen is not None
    assert chosen.name == "b"


def test_keys_of_a_flow_override_those_of_all_flows(tmp_path: Path) -> None:
    lines = MASK + "A->B.mm2.sql.mask.topics = users\nA->B.mm2.sql.mask.transform = my.masks:card\n"
    one, other = files.settings(tmp_path, lines).flows
    (mine,), (theirs,) = one.queries.in_order, other.queries.in_order
    assert (mine.topics.elements, mine.action) == (("users",), RowTransform(module="my.masks", function="card"))
    assert str(mine) == "mask calls my.masks:card"
    assert theirs.topics.elements == ("orders.*", "pay")
    assert isinstance(theirs.action, RowQuery)


def test_query_in_a_file_beside_the_properties(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "mask.sql").write_text(f"\ufeff{UPPER}\nWHERE topic <> 'ü';\n", "utf-8")
    (query,) = queries(tmp_path, "mm2.sql.mask.topics = a\nmm2.sql.mask.file = sql/mask.sql\n").in_order
    assert isinstance(query.action, RowQuery)
    assert query.action.condition == "topic <> 'ü'"


def test_error_in_a_line_that_continues(tmp_path: Path) -> None:
    lines = (
        "mm2.sql.x.topics = a\nmm2.sql.x.query = SELECT \\\n    vlaue AS key, \\\n    rand() AS value FROM records\n"
    )
    column, function = problems(tmp_path, lines)
    assert (column.line, column.column, column.excerpt) == (7, 5, ("    vlaue AS key, \\", "    ^"))
    assert str(column).startswith(
        f"{tmp_path}/mm2.properties:7: error: mm2.sql.x.query: column 5: records has no column"
    )
    assert (function.line, function.column, function.key) == (8, 5, "mm2.sql.x.query")
    assert function.value == "SELECT vlaue AS key, rand() AS value FROM records"


def test_error_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "mask.sql").write_text("SELECT *\nFROM records\nWHERE wholly > 1\n")
    (problem,) = problems(tmp_path, "mm2.sql.x.topics = a\nmm2.sql.x.file = mask.sql\n")
    assert (problem.file, problem.line, problem.column) == (str(tmp_path / "mask.sql"), 3, 7)
    assert problem.excerpt == ("WHERE wholly > 1", "      ^")
    assert problem.key == "mm2.sql.x.file"


def test_warning_about_a_query_does_not_prevent_a_start(tmp_path: Path) -> None:
    loaded = files.loaded(tmp_path, "mm2.sql.x.topics = a\nmm2.sql.x.query = SELECT * FROM records\n")
    (problem,) = loaded.problems
    assert problem.is_warning
    assert loaded.settings is not None
    assert [one.name for one in loaded.settings.flows[0].queries.in_order] == ["x"]


def test_a_query_with_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM2_SALT", "sesame")
    provider = "config.providers = env\nconfig.providers.env.class = org.apache.kafka.common.config.provider."
    lines = (
        f"{provider}EnvVarConfigProvider\nmm2.sql.x.topics = a\n"
        "mm2.sql.x.query = SELECT sha2('${env:MM2_SALT}', 256) AS key FROM records\n"
    )
    (query,) = queries(tmp_path, lines).in_order
    assert isinstance(query.action, RowQuery)
    assert query.action.columns == {ResultColumn.KEY: "sha2('sesame', 256)"}
    assert "${env:MM2_SALT}" in query.action.text
    (problem,) = problems(tmp_path, lines.replace("FROM records", "FROM recrods"))
    assert (problem.line, problem.column, problem.excerpt) == (8, None, ())
    assert "sesame" not in str(problem)
    unresolved = problems(tmp_path, lines.replace("env:MM2_SALT", "env:MM2_NO_SALT"))
    assert [one.rule for one in unresolved] == ["cannot be resolved: environment variable MM2_NO_SALT is not set"]


KEYS = [
    (
        f"mm2.sql.x.query = {UPPER}\n",
        [
            f"mm2.properties:5: error: mm2.sql.x.query = {UPPER}: mm2.sql.x.topics is missing, so the query "
            f"applies to no "
            "topic (fix: add mm2.sql.x.topics with a list of topics)"
        ],
    ),
    (
        "A->B.mm2.sql.x.topics = a\n",
        [
            "mm2.properties:5: error: A->B.mm2.sql.x.topics = a: there is no query for these topics: mm2.sql.x "
            "needs query, "
            "file or transform (fix: add A->B.mm2.sql.x.query = SELECT … FROM records)"
        ],
    ),
    (
        f"mm2.sql.x.topics =\nmm2.sql.x.query = {UPPER}\n",
        [
            "mm2.properties:5: error: mm2.sql.x.topics = (empty): must contain at least one topic (fix: list the "
            "topics, "
            "for example orders, payments.*)"
        ],
    ),
    (
        f"mm2.sql.x.topics = a(\nmm2.sql.x.query = {UPPER}\n",
        [
            'mm2.properties:5: error: mm2.sql.x.topics = a(: element 1 "a(" is not a valid Java regular expression: '
            "unterminated group (fix: add the missing ), or write \\\\( to match a parenthesis)"
        ],
    ),
    (
        f"mm2.sql.x.topics = a b\nmm2.sql.x.query = {UPPER}\n",
        [
            'mm2.properties:5: warning: mm2.sql.x.topics = a b: element 1 "a b" contains a space, which no topic name '
            "contains (fix: write mm2.sql.x.topics = a, b)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.file = f\nmm2.sql.x.transform = m:f\n",
        [
            "mm2.properties:7: error: mm2.sql.x.transform = m:f: cannot be combined with mm2.sql.x.file: a name "
            "has one of "
            "query, file or transform (fix: remove one of the two lines, or choose another name for one of them)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.transform = my.module.function\n",
        [
            "mm2.properties:6: error: mm2.sql.x.transform = my.module.function: must have the form module:function "
            "(fix: write it as in my.module:my_function)"
        ],
    ),
    (
        "mm2.sql.a b.topics = a\n".replace(" ", "\\ ", 1),
        [
            "mm2.properties:5: error: mm2.sql.a b.topics = a: a b is not a valid name: it must have 1 to 100 letters, "
            "digits, hyphens and underscores (fix: choose another name, as in mm2.sql.mask.topics)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.file = no.sql\n",
        [
            "mm2.properties:6: error: mm2.sql.x.file = no.sql: file no.sql does not exist (fix: correct the path: "
            "it starts "
            "at the directory of this file)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.file =\n",
        [
            "mm2.properties:6: error: mm2.sql.x.file = (empty): names no file (fix: write the path of a file that "
            "contains "
            "the query)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.file = .\n",
        [
            "mm2.properties:6: error: mm2.sql.x.file = .: {directory} is a directory (fix: write the path of the "
            "file with "
            "the query in it)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.file = latin.sql\n",
        [
            "mm2.properties:6: error: mm2.sql.x.file = latin.sql: file latin.sql is not UTF-8 (fix: convert the "
            "file to "
            "UTF-8)"
        ],
    ),
    (
        f"mm2.sql.x.topics = a\nmm2.sql.x.file = {'n' * 300}\n",
        [
            f"mm2.properties:6: error: mm2.sql.x.file = {'n' * 120}…: file {'n' * 300} cannot be read (File name "
            f"too long) "
            "(fix: check the path, and that the user running mm2 can read the file)"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.file = a\\u0000b\n",
        [
            "mm2.properties:6: error: mm2.sql.x.file = a\\x00b: file a\\x00b cannot be read (embedded null byte) "
            "(fix: check the path, and that the user running mm2 can read the file)"
        ],
    ),
    (
        f"mm2.sql.x.topics = .*\nmm2.sql.x.query = {UPPER}\nmm2.sql.y.topics = a\nmm2.sql.y.query = {UPPER}\n",
        [
            "mm2.properties:7: warning: mm2.sql.y.topics = a: never applies: x, which comes first in the file, "
            "applies to "
            "every topic (fix: move the lines of x to the end, or limit its topics)"
        ],
    ),
    (
        "mm2.sql.x.topisc = a\n",
        [
            "mm2.properties:5: error: mm2.sql.x.topisc = a: unknown property; ignoring it means that records are "
            f"copied without this query (fix: did you mean mm2.sql.x.topics?; {AS_JAVA})"
        ],
    ),
    (
        "A->B.mm2.sql.topics = a\n",
        [
            "mm2.properties:5: error: A->B.mm2.sql.topics = a: unknown property; ignoring it means that records are "
            f"copied without this query (fix: did you mean A->B.mm2.sql.NAME.topics?; {AS_JAVA})"
        ],
    ),
    (
        "A.mm2.sql.x.topics = a\n",
        [
            "mm2.properties:5: error: A.mm2.sql.x.topics = a: has no effect for a cluster, so records are copied "
            "without this query (fix: write mm2.sql.x.topics, or A->X.mm2.sql.x.topics or X->A.mm2.sql.x.topics for "
            f"one flow; {AS_JAVA})"
        ],
    ),
    (
        "mm2.sql.x.topics = a\nmm2.sql.x.query = SELECT * FROM records WHERE CAST(key AS STRING) RLIKE '\\d'\n",
        [
            "mm2.properties:6: warning: mm2.sql.x.query = SELECT * FROM records WHERE CAST(key AS STRING) RLIKE "
            "'d': the "
            "backslash of \\d is dropped, as in Java (fix: write each backslash twice: \\\\d; in SQL also make "
            "the text a "
            "raw string: r'\\\\d')"
        ],
    ),
]


@pytest.mark.parametrize(("lines", "expected"), KEYS)
def test_problems_of_keys(lines: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xfc' AS key FROM records")
    assert messages(tmp_path, lines) == [one.replace("{directory}", str(tmp_path)) for one in expected]


def test_an_alias_can_be_the_first_word_of_our_keys(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(f"clusters = mm2, B\nmm2.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n{MASK}")
    loaded = load(path)
    assert [one for one in loaded.problems if "sql" in (one.key or "")] == []


@pytest.mark.parametrize(("lines", "imported"), [("", False), (MASK, True)])
def test_sqlglot_is_imported_for_the_first_query(lines: str, imported: bool, tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(files.CLUSTERS + lines)
    program = (
        "import sys, pathlib\nfrom mm2.config.load import load\n"
        f"assert load(pathlib.Path({str(path)!r})).settings\nprint('sqlglot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{imported}\n"


@pytest.mark.parametrize(
    "key",
    [
        *("mm2.sql.x.query", "mm2.sql.a.b.query", "mm2.sql.x.qery", "A->B.mm2.sql.x.qery", "mm2.sql.query"),
        *("mm2.sql.a b.query", "A-B.mm2.sql.x.query"),
    ],
)
def test_no_problem_contains_what_a_reference_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MM2_SALT", "sesame")
    name = key.replace(" ", "\\ ")
    lines = f"{ENVIRONMENT}{name} = SELECT ${{env:MM2_SALT}} AS key, ${{env:MM2_SALT}} ) FROM records\n"
    found = files.loaded(tmp_path, lines).problems
    assert any(one.key == key for one in found)
    assert [str(one) for one in found if "sesame" in str(one)] == []
