#!/bin/sh
# Runs the fast tests of the program on the newest Python that README.md promises, and one plain and one SQL flow on the
# newest Java. Tests of docs/, deploy/ and of the tests' own tools do not depend on the user's Python.
# `make test` covers the oldest ones. Looks for Python in $PYTHON_NEWEST, PATH and pyenv, and for a JDK in $JAVA_NEWEST,
# JAVA_HOME, PATH and /usr/lib/jvm. Fails if one is missing; with MM2_NO_SKIPS=1 also if .venv is not of the oldest Python.
set -eu

cd "$(dirname "$0")/../.."
OLDEST_PYTHON=3.11
NEWEST_PYTHON=3.13
OLDEST_JAVA=17
NEWEST_JAVA=25
environment=.venv-newest
workers=2 # as many as cores: each more collects all tests once more, and other tests run beside them

fail() { # PROBLEM FIX
    echo "versions: error: $1" >&2
    echo "    fix: $2" >&2
    exit 2
}

python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }

find_python() {
    for candidate in ${PYTHON_NEWEST:-} "python$NEWEST_PYTHON" "$(pyenv root 2>/dev/null)/versions/$NEWEST_PYTHON".*/bin/python; do
        path=$(command -v "$candidate" 2>/dev/null) || continue
        if [ "$(python_version "$path")" = $NEWEST_PYTHON ]; then echo "$path" && return; fi
    done
}

java_version() { "$1/bin/java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }

java_on_path() { # its home
    path=$(command -v java) && path=$(readlink -f "$path") && echo "${path%/bin/java}"
}

find_java() {
    for candidate in ${JAVA_NEWEST:-} ${JAVA_HOME:-} "$(java_on_path || true)" /usr/lib/jvm/*; do
        if [ -x "$candidate/bin/java" ] && [ "$(java_version "$candidate")" = $NEWEST_JAVA ]; then echo "$candidate" && return; fi
    done
}

python=$(find_python)
[ -n "$python" ] || fail "no Python $NEWEST_PYTHON found" "install it (pyenv install $NEWEST_PYTHON), or give its path: PYTHON_NEWEST=/path/to/python"
java=$(find_java)
[ -n "$java" ] || fail "no Java $NEWEST_JAVA found" "install a JDK $NEWEST_JAVA (https://adoptium.net), or give its path: JAVA_NEWEST=/path/to/jdk"

here="$(python_version .venv/bin/python), Java $(sh deploy/setup/java.sh)"
if [ "$here" != "$OLDEST_PYTHON, Java $OLDEST_JAVA" ]; then
    [ "${MM2_NO_SKIPS:-}" != 1 ] ||
        fail "make test ran with Python $here, so nothing was tested with Python $OLDEST_PYTHON, Java $OLDEST_JAVA" \
            "PYTHON=/path/to/python$OLDEST_PYTHON make clean setup, with JAVA_HOME of a JDK $OLDEST_JAVA"
    echo "versions: make test runs with Python $here here, not with the oldest ($OLDEST_PYTHON, Java $OLDEST_JAVA)"
fi

sh deploy/setup/environment.sh $environment "$python"

# The flows wait for brokers and for Spark most of the time, the fast tests never wait for long: they have the lowest
# priority, and can therefore run beside other tests, too.
echo "versions: a plain and a SQL flow with Java $NEWEST_JAVA ($java), meanwhile:"
results=tests/integration/queries/test_results.py
flows=$(mktemp)
trap 'rm -f "$flows"' EXIT
JAVA_HOME=$java .venv/bin/pytest \
    "$results::test_values_are_masked_and_records_dropped[lz4]" $results::test_other_topics_of_the_flow_pass_through \
    >"$flows" 2>&1 &
running=$!

echo "versions: fast tests with Python $NEWEST_PYTHON ($python), properties with a few examples"
code=0
MM2_HYPOTHESIS=few nice -n 19 $environment/bin/pytest -n $workers --dist loadfile \
    --ignore tests/unit/bench --ignore tests/unit/deploy --ignore tests/unit/lab --ignore tests/unit/long \
    --ignore-glob 'tests/unit/test_*.py' \
    tests/unit tests/property tests/golden tests/snapshots tests/contract || code=1
wait $running || code=1
echo "versions: the two flows with Java $NEWEST_JAVA:"
cat "$flows"
exit $code
