#!/bin/sh
# Resolves pyproject.toml with its dev group for all platforms into requirements.lock, with hashes.
set -eu

cd "$(dirname "$0")/../.."
uv=$(sh deploy/setup/uv.sh "$(sh deploy/setup/python.sh)")
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --custom-compile-command "make lock" --group dev --output-file requirements.lock pyproject.toml
