#!/bin/sh
# Prints the path of uv. If uv is missing, it is installed into the cache: in a private virtual environment, or with pip
# if the system's Python cannot create one (Debian has ensurepip in a separate package).
# usage: uv.sh PYTHON
set -eu

python=$1
home=${XDG_CACHE_HOME:-$HOME/.cache}/mm2/uv

for candidate in uv "$HOME/.local/bin/uv" "$home/bin/uv"; do
    path=$(command -v "$candidate" 2>/dev/null) || continue
    if "$path" --version >/dev/null 2>&1; then
        echo "$path"
        exit 0
    fi
done

echo "setup: downloading uv, the package installer, into $home" >&2

in_environment() {
    rm -rf "$home"
    "$python" -m venv "$home" >/dev/null 2>&1 && "$home/bin/python" -m pip install --quiet --root-user-action=ignore uv >&2
}

by_pip() {
    rm -rf "$home"
    "$python" -m pip --version >/dev/null 2>&1 && "$python" -m pip install --quiet --root-user-action=ignore --target "$home" uv >&2
}

by_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "setup: installing python3-venv" >&2
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq "python$version-venv" >&2 || apt-get install -y -qq python3-venv >&2
    in_environment
}

if in_environment || by_pip || by_apt; then
    echo "$home/bin/uv"
    exit 0
fi
rm -rf "$home"
echo "setup: error: cannot install uv: this Python has neither venv nor pip, or the package index does not respond" >&2
echo "    fix: install python3-venv or uv (https://docs.astral.sh/uv/), then try again" >&2
exit 2
