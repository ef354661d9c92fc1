#!/bin/sh
# Packs what lanes need on the machines of a Spark cluster, for spark.archives (docs/spark-clusters.md).
# The archive holds a virtual environment: these packages, as requirements.lock pins them, and mm2 itself. PySpark is not
# in it, executors have their Spark's. The interpreter is not either: each machine needs the same Python at the same path.
# usage: pack.sh [ARCHIVE]    after make setup
set -eu

cd "$(dirname "$0")/../.."
archive=${1:-dist/mm2-lanes.tar.gz}
packages='aiokafka cramjam crc32c httpx pydantic'

say() { echo "pack: $*"; }

uv=$(sh deploy/setup/uv.sh .venv/bin/python)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=$(.venv/bin/python -c 'import os, sys; print(os.path.realpath(sys.executable))')
"$uv" venv --quiet --relocatable --python "$python" "$work/environment"
"$uv" pip install --quiet --compile-bytecode --python "$work/environment/bin/python" --constraint requirements.lock $packages
.venv/bin/python -m hatchling build -t wheel -d "$work" >/dev/null 2>&1
"$uv" pip install --quiet --compile-bytecode --python "$work/environment/bin/python" --no-deps "$work"/mm2-*.whl
"$work/environment/bin/python" -I -c 'import aiokafka, mm2.kafka.cluster'

mkdir -p "$(dirname "$archive")"
tar -C "$work/environment" -czf "$archive" .
say "$(du -h "$archive" | cut -f1) in $archive, for machines that have $("$python" -V) at $python"
