#!/bin/sh
# Makes .venv from requirements.lock, checks Java, and fetches Kafka's jars once. Quick when nothing has changed.
# usage: setup.sh KAFKA_VERSION...
set -eu

cd "$(dirname "$0")/../.."
here=deploy/setup
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mm2
stamp=.venv/.complete

# What the environment was made from; it also names its own place, because its scripts do.
wanted="$(cat requirements.lock pyproject.toml | cksum) $(pwd)"

say() { echo "setup: $*"; }

install_packages() {
    python=$(sh $here/python.sh)
    say "Python $("$python" -c 'import platform; print(platform.python_version())') at $python"
    uv=$(sh $here/uv.sh "$python")
    say "installing $(grep -c '^[a-z]' requirements.lock) packages into .venv"
    rm -f $stamp
    "$uv" venv --quiet --allow-existing --python "$python" .venv
    "$uv" pip sync --quiet --python .venv/bin/python --require-hashes requirements.lock
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
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
