#!/bin/sh
# Packs the environment that lanes need on the machines of a Spark cluster, for spark.archives (docs/how-to/spark-clusters.md).
# The archive contains a virtual environment with these packages, as pinned in requirements.lock, and mm2 itself. It does
# not contain PySpark, which executors have, nor the interpreter: each machine needs the same Python at the same path.
# pyarrow, for SQL flows, is most of its size; pandas is needed by the driver only, which runs on the node.
# gssapi, for SASL GSSAPI, is included if it is installed here; the machines need MIT Kerberos' libraries then (Debian:
# libgssapi-krb5-2).
# usage: pack.sh [ARCHIVE]    after make setup
set -eu

cd "$(dirname "$0")/../.."
archive=${1:-dist/mm2-lanes.tar.gz}
packages='aiokafka cramjam crc32c cryptography httpx pyarrow pydantic'
optional='gssapi'

if .venv/bin/python -c 'import gssapi' 2>/dev/null; then packages="$packages $optional"; fi

say() { echo "pack: $*"; }

uv=$(sh deploy/setup/uv.sh .venv/bin/python)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=$(.venv/bin/python -c 'import os, sys; print(os.path.realpath(sys.executable))')
"$uv" venv --quiet --relocatable --python "$python" "$work/environment"
"$uv" pip install --quiet --compile-bytecode --python "$work/environment/bin/python" --constraint requirements.lock \
    --constraint requirements-kerberos.lock --build-constraint requirements-kerberos.lock $packages
.venv/bin/python -m hatchling build -t wheel -d "$work" >/dev/null 2>&1
"$uv" pip install --quiet --compile-bytecode --python "$work/environment/bin/python" --no-deps "$work"/mm2-*.whl
"$work/environment/bin/python" -I -c 'import aiokafka, mm2.kafka.client.cluster, mm2.kafka.sasl.token_endpoint'

mkdir -p "$(dirname "$archive")"
tar -C "$work/environment" -czf "$archive" .
say "created $archive ($(du -h "$archive" | cut -f1)), for machines with $("$python" -V) at $python"
