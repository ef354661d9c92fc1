"""Functions of Spark that a query cannot use: the value of a row would depend on more than its record.

The names are those of Spark 4.3 (FunctionRegistry). Functions that Spark does not know are found by Spark when the flow
starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqlglot import Token, TokenType

from mm2.config.sql.parsed_query import ParsedQuery
from mm2.config.sql.query_finding import QueryFinding


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bloom_filter_agg bool_and
    bool_or collect_list collect_set collect_top_k collect_union corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile
    percentile_approx percentile_cont percentile_disc product regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp
    string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
    """
)

WINDOWS = _names(
    """
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number session_window window
    window_time
    """
)

GENERATORS = _names(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
    variant_explode_outer
    """
)

RANDOM = _names(
    "distributed_id monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid"
)

CLOCK = _names("curdate current_date current_time current_timestamp localtime localtimestamp now")

SESSION = _names("current_catalog current_database current_path current_schema current_user session_user user version")

FILES = _names("input_file_block_length input_file_block_start input_file_name")

CODE = _names("java_method reflect try_reflect")

_ANY_RECORD = "a query is evaluated for each record by itself"

_RULES: Mapping[frozenset[str], tuple[str, str]] = {
    AGGREGATES: (f"is an aggregate function: {_ANY_RECORD}", "use expressions over one record, or a stream processor"),
    WINDOWS: (f"is a window function: {_ANY_RECORD}", "use expressions over one record, or a stream processor"),
    GENERATORS: (
        "returns several rows: a record stays one record, or is dropped",
        "use functions of arrays, such as transform and filter",
    ),
    RANDOM: (
        "is not deterministic: a record that is copied again would differ",
        "derive the value from the record, for example with sha2 or xxhash64",
    ),
    CLOCK: ("depends on when the query runs, not on the record", "use the column timestamp"),
    SESSION: ("depends on the Spark session, not on the record", "write the value into the query"),
    FILES: ("is about files: records do not come from files", "remove it"),
    CODE: ("calls any method of a Java class, which Spark cannot check", "use functions of Spark SQL"),
}

_WITHOUT_PARENTHESES = CLOCK - {"now", "curdate"} | {
    "current_user",
    "session_user",
    "current_catalog",
    "current_schema",
}
_NAME = re.compile(r"[A-Za-z_]\w*|`[^`]*`")
_LIKE = (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_QUANTIFIERS = ("any", "some")
_TIME_TYPES = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")
_TIME_WORDS = ("now", "today", "tomorrow", "yesterday")


def check_functions(query: ParsedQuery) -> Iterator[QueryFinding]:
    """Return the functions, and the time literals, whose values do not depend on the record alone."""
    tokens = query.tokens
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        name = token.text.lower()
        if before is not None and _is_time_literal(before, token):
            yield _finding(before, f"{before.text} {query.source(token)}", *_RULES[CLOCK])
        elif _is_function(query, index, before):
            rule = next((rule for names, rule in _RULES.items() if name in names), None)
            if rule is not None:
                yield _finding(token, name, *rule)
            elif name == "unix_timestamp" and tokens[index + 2].token_type is TokenType.R_PAREN:
                yield _finding(token, "unix_timestamp()", *_RULES[CLOCK])


def check_strings(query: ParsedQuery) -> Iterator[QueryFinding]:
    r"""Return warnings about escapes that Spark SQL drops or reads as a backspace, such as those of ``'\d+\b'``."""
    for token in query.tokens:
        if token.token_type is not TokenType.STRING:
            continue
        for match in _ESCAPE.finditer(query.source(token)):
            if _KNOWN_ESCAPE.match(match[0]) is None:
                meaning = "is a backspace" if match[0] == r"\b" else f"is only {match[0][1]}"
                yield QueryFinding(
                    offset=token.start + match.start(),
                    rule=f"{match[0]} {meaning} in a text of Spark SQL",
                    without_text="a backslash in a text of Spark SQL is dropped, or is part of a backspace",
                    fix=r"write a raw string, such as r'\d+', or each backslash twice"
                    " (in a properties file, write every backslash of the query twice)",
                    is_warning=True,
                )


_ESCAPE = re.compile(r"\\(?:[0-3][0-7]{2}|.)", re.DOTALL)
_KNOWN_ESCAPE = re.compile(r"""\\(?:[0-3][0-7]{2}|[0'"nrtZ\\%_uU\n])""")
"""As in Spark's SparkParserUtils.unescapeSQLString, except for ``\\b``, which is meant as a word boundary."""


def _is_time_literal(before: Token, token: Token) -> bool:
    """Return whether two tokens are a time that is not fixed, such as ``TIMESTAMP 'now'``."""
    is_text = token.token_type is TokenType.STRING
    return is_text and token.text.strip().lower() in _TIME_WORDS and before.text.lower() in _TIME_TYPES


def _is_function(query: ParsedQuery, index: int, before: Token | None) -> bool:
    token = query.tokens[index]
    name = token.text.lower()
    if _NAME.fullmatch(query.source(token)) is None:
        return False
    following = query.tokens[index + 1].token_type if index + 1 < len(query.tokens) else None
    if following is TokenType.L_PAREN:
        return not (name in _QUANTIFIERS and before is not None and before.token_type in _LIKE)
    is_field = before is not None and before.token_type is TokenType.DOT
    is_alias = before is not None and before.token_type is TokenType.ALIAS
    return name in _WITHOUT_PARENTHESES and not (is_field or is_alias) and token.token_type is not TokenType.IDENTIFIER


def _finding(token: Token, name: str, rule: str, fix: str) -> QueryFinding:
    return QueryFinding(offset=token.start, rule=f"{name} {rule}", fix=fix)
