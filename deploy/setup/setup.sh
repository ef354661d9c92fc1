#!/bin/sh
# Creates .venv from requirements.lock, checks Java, and downloads Kafka's jars once. Fast if nothing has changed.
# usage: setup.sh KAFKA_VERSION...
set -eu

cd "$(dirname "$0")/../.."
here=deploy/setup
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mm2
stamp=.venv/.complete

# Identifies the content of the environment, and its directory, because its scripts contain the path.
wanted="$(cat requirements.lock pyproject.toml | cksum) $(pwd)"

say() { echo "setup: $*"; }

install_packages() {
    python=$(sh $here/python.sh)
    say "Python $("$python" -c 'import platform; print(platform.python_version())') at $python"
    uv=$(sh $here/uv.sh "$python")
    say "installing $(grep -c '^[a-z]' requirements.lock) packages into .venv"
    rm -f $stamp
    "$uv" venv --quiet --allow-existing --python "$python" .venv
    # Bytecode is compiled here, as pip does: otherwise every start compiles again where Python may not write it.
    "$uv" pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes requirements.lock
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
    .venv/bin/python -m compileall -q mm2 flows
    echo "$wanted" >$stamp
}

if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    install_packages
fi

java=$(sh $here/java.sh)

for version in "$@"; do
    ls "$cache/kafka-$version".*.jsa >/dev/null 2>&1 || .venv/bin/python -m tests.lab.prepare "$version"
done

say "ready: $(.venv/bin/python -V), Java $java, Kafka $*"
