#!/bin/sh
# Creates .venv from requirements.lock, checks Java, and downloads Kafka's jars once. Fast if nothing has changed.
# usage: setup.sh KAFKA_VERSION...
set -eu

cd "$(dirname "$0")/../.."
here=deploy/setup
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mm2

sh $here/environment.sh .venv

java=$(sh $here/java.sh)

for version in "$@"; do
    ls "$cache/kafka-$version".*.jsa >/dev/null 2>&1 || .venv/bin/python -m tests.lab.prepare "$version"
done

echo "setup: ready: $(.venv/bin/python -V), Java $java, Kafka $*"
