#!/bin/sh
# Creates a virtual environment from requirements.lock. Does nothing if it is complete. The extra kerberos is built and
# installed too, from requirements-kerberos.lock, where a C compiler and MIT Kerberos' headers exist.
# usage: environment.sh DIRECTORY [PYTHON]
set -eu

cd "$(dirname "$0")/../.."
directory=$1
stamp=$directory/.complete

kerberos=without
if command -v krb5-config >/dev/null && command -v cc >/dev/null; then kerberos=with; fi

# Identifies the content of the environment, and its directory, because its scripts contain the path.
wanted="$(cat requirements.lock requirements-kerberos.lock pyproject.toml | cksum) $(pwd) $kerberos kerberos"
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && "$directory/bin/python" -c '' 2>/dev/null; then exit 0; fi

say() { echo "setup: $*"; }

python=${2:-$(sh deploy/setup/python.sh)}
say "Python $("$python" -c 'import platform; print(platform.python_version())') at $python"
uv=$(sh deploy/setup/uv.sh "$python")
say "installing $(grep -c '^[a-z]' requirements.lock) packages into $directory"
rm -f "$stamp"
"$uv" venv --quiet --allow-existing --python "$python" "$directory"
# Bytecode is not compiled here: programs and tests import a part of the 5,500 modules, and store their bytecode then.
"$uv" pip sync --quiet --python "$directory/bin/python" --require-hashes requirements.lock
"$uv" pip install --quiet --python "$directory/bin/python" --no-deps --no-build-isolation --editable .
if [ $kerberos = with ]; then
    say "building gssapi, for SASL GSSAPI"
    "$uv" pip install --quiet --python "$directory/bin/python" --require-hashes \
        --build-constraints requirements-kerberos.lock --constraints requirements-kerberos.lock \
        --constraints requirements.lock --requirements pyproject.toml --extra kerberos
else
    say "without SASL GSSAPI: it needs a C compiler and krb5-config (Debian: gcc libkrb5-dev)"
fi
"$directory/bin/python" -m compileall -q mm2 flows
echo "$wanted" >"$stamp"
