#!/bin/sh
# Creates .venv from requirements.lock, checks Java, and downloads Kafka's jars once. Fast if nothing has changed. The extra
# kerberos is built and installed too, from requirements-kerberos.lock, where a C compiler and MIT Kerberos' headers exist.
# usage: setup.sh KAFKA_VERSION...
set -eu

cd "$(dirname "$0")/../.."
here=deploy/setup
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mm2
stamp=.venv/.complete

kerberos=without
if command -v krb5-config >/dev/null && command -v cc >/dev/null; then kerberos=with; fi

# Identifies the content of the environment, and its directory, because its scripts contain the path.
wanted="$(cat requirements.lock requirements-kerberos.lock pyproject.toml | cksum) $(pwd) $kerberos kerberos"

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
    if [ $kerberos = with ]; then
        install_kerberos
    else
        say "without SASL GSSAPI: it needs a C compiler and krb5-config (Debian: gcc libkrb5-dev)"
    fi
    .venv/bin/python -m compileall -q mm2 flows
    echo "$wanted" >$stamp
}

install_kerberos() {
    say "building gssapi, for SASL GSSAPI"
    "$uv" pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes \
        --build-constraints requirements-kerberos.lock --constraints requirements-kerberos.lock \
        --constraints requirements.lock --requirements pyproject.toml --extra kerberos
}

if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    install_packages
fi

java=$(sh $here/java.sh)

for version in "$@"; do
    ls "$cache/kafka-$version".*.jsa >/dev/null 2>&1 || .venv/bin/python -m tests.lab.prepare "$version"
done

say "ready: $(.venv/bin/python -V), Java $java, Kafka $*"
