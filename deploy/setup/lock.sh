#!/bin/sh
# Resolves pyproject.toml for all platforms, with hashes: with its dev group into requirements.lock, and without it, in the
# same versions, into requirements-runtime.lock.
set -eu

cd "$(dirname "$0")/../.."
uv=$(sh deploy/setup/uv.sh "$(sh deploy/setup/python.sh)")

lock() { # FILE OPTION...
    file=$1 && shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --custom-compile-command "make lock" "$@" --output-file "$file" pyproject.toml
}

lock requirements.lock --group dev --extra sql
lock requirements-runtime.lock --extra sql --constraint requirements.lock
