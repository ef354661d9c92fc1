#!/bin/sh
# Resolves pyproject.toml for all platforms, with hashes: with its dev group into requirements.lock, and without it, in the
# same versions, into requirements-runtime.lock. The extra kerberos is built from source, which needs the headers of MIT
# Kerberos, so it has a lock of its own: requirements-kerberos.lock, with what builds it.
set -eu

cd "$(dirname "$0")/../.."
uv=$(sh deploy/setup/uv.sh "$(sh deploy/setup/python.sh)")

lock() { # FILE ARGUMENT...
    file=$1 && shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --custom-compile-command "make lock" --output-file "$file" "$@"
}

lock requirements.lock --group dev --extra sql pyproject.toml
lock requirements-runtime.lock --extra sql --constraint requirements.lock pyproject.toml
# gssapi pins the Cython that it is built with, so both are raised together.
printf '%s\n' gssapi==1.12.0 cython==3.3.0 setuptools | lock requirements-kerberos.lock --constraint requirements.lock -
