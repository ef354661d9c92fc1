"""Functions of Spark that a query cannot use: the value of a row would depend on more than its record.

The names are those of Spark 4.3 (FunctionRegistry). Functions that Spark does not know are found by Spark when the flow
starts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from operator import itemgetter

from sqlglot import Token, TokenType

from mm2.config.sql.parsed_query import ParsedQuery, nesting
from mm2.config.sql.query_finding import QueryFinding
from mm2.core.settings.relative_times import is_relative_time
from mm2.core.settings.row_query import TABLE


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
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer python_worker_logs range
    sql_keywords stack variant_explode variant_explode_outer
    """
)

RANDOM = _names(
    """
    distributed_id kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float monotonically_increasing_id
    rand randn random randstr shuffle spark_partition_id uniform uuid
    """
)
"""Spark takes merges of KLL sketches for deterministic, but they drop values at random."""

CLOCK = _names("curdate current_date current_time current_timestamp localtime localtimestamp now")

SESSION = _names(
    """
    current_catalog current_database current_path current_schema current_timezone current_user session_user user version
    """
)

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

_RANDOM_IV = "encrypts a value differently each time, unless it has an IV or the mode 'ECB'"
_FIX_OF_IV = "derive the IV from the record: aes_encrypt(value, key, 'GCM', 'DEFAULT', substr(sha2(value, 256), 1, 12))"
_MODE, _IV = 2, 4

REJECTED_FUNCTIONS: Collection[frozenset[str]] = _RULES.keys()

_WITHOUT_PARENTHESES = CLOCK - {"now", "curdate"} | {
    "current_user",
    "session_user",
    "current_catalog",
    "current_schema",
}
_NAME = re.compile(r"[A-Za-z_]\w*|`[^`]*`")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_LIKE = (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_QUANTIFIERS = ("any", "some")
_COMPARISONS = ("=", "==", "<=>", "<", "<=", ">", ">=", "<>", "!=", "between")
_TIME_FUNCTIONS = (
    *("date", "timestamp", "to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz"),
    *("try_to_date", "try_to_timestamp"),
)
_TIME_TYPES = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")


def check_functions(query: ParsedQuery) -> Iterator[QueryFinding]:
    """Return the functions, and the time literals, whose values do not depend on the record alone."""
    tokens = query.tokens
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        name = token.text.lower()
        if token.token_type in _STRINGS and is_relative_time(token.text):
            if before is not None and before.text.lower() in _TIME_TYPES:
                yield _relative_time(before, f"{before.text} {query.source(token)}")
            elif _becomes_a_time(query, index):
                yield _relative_time(token, f"{query.source(token)} as a time")
        elif _is_function(query, index, before):
            rule = next((rule for names, rule in _RULES.items() if name in names), None)
            if rule is not None:
                yield _finding(token, name, *rule)
            elif name == "unix_timestamp" and tokens[index + 2].token_type is TokenType.R_PAREN:
                yield _finding(token, "unix_timestamp()", *_RULES[CLOCK])
            elif name == "aes_encrypt" and not _is_deterministic_aes(_arguments(query, index + 1)):
                yield _finding(token, name, _RANDOM_IV, _FIX_OF_IV)


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


def _relative_time(token: Token, text: str) -> QueryFinding:
    rule, fix = _RULES[CLOCK]
    return QueryFinding(
        offset=token.start, rule=f"{text} {rule}", fix=fix, without_text=f"a text that is read as a time {rule}"
    )


def _becomes_a_time(query: ParsedQuery, index: int) -> bool:
    """Return whether a text is cast to a time, an argument of a function that does so, or compared with timestamp."""
    words = ["", "", "", "", *(token.text.lower() for token in query.tokens), "", "", "", ""]
    *of, name, before = words[index : index + 4]
    after, then, *last = words[index + 5 : index + 9]
    if before == "(":
        if name in ("cast", "try_cast"):
            return after == "as" and then in _TIME_TYPES
        return name in _TIME_FUNCTIONS
    if after == "::":
        return then in _TIME_TYPES
    if before in _COMPARISONS:
        return name == "timestamp" and (of[1] != "." or of[0] == TABLE)
    return after in _COMPARISONS and (then == "timestamp" or (then, *last) == (TABLE, ".", "timestamp"))


def _is_deterministic_aes(arguments: Sequence[Sequence[Token]]) -> bool:
    """Return whether a call of aes_encrypt(value, key, mode, padding, iv, aad) has the mode ECB or an IV."""
    given: dict[int | str, Sequence[Token]] = {}
    for at, argument in enumerate(arguments):
        if len(argument) > 1 and argument[1].token_type is TokenType.FARROW:
            given[argument[0].text.lower()] = argument[2:]
        else:
            given[at] = argument
    mode, iv = given.get("mode", given.get(_MODE, ())), given.get("iv", given.get(_IV, ()))
    if len(iv) == 1 and iv[0].token_type in _STRINGS and not iv[0].text:
        return False
    return bool(iv) or (len(mode) == 1 and mode[0].text.upper() == "ECB")


def _arguments(query: ParsedQuery, opening: int) -> list[list[Token]]:
    """Return the tokens of each argument of a call, whose parenthesis is at index ``opening``."""
    found: list[list[Token]] = [[]]
    tokens = query.tokens[opening:]
    inside = takewhile(itemgetter(1), zip(tokens, nesting(tokens), strict=True))
    for token, depth in islice(inside, 1, None):
        if depth == 1 and token.token_type is TokenType.COMMA:
            found.append([])
        else:
            found[-1].append(token)
    return found


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
