#!/bin/sh
# Installs the tools that some tests need besides Python, make and Java: promtool and kustomize into the cache,
# systemd-analyze and MIT Kerberos with apt. For .ci/run; without the tools those tests are skipped. Requires a Debian-like system and Go
# 1.24 or newer.
set -eu

bin=${XDG_CACHE_HOME:-$HOME/.cache}/mm2/tools/bin
KUSTOMIZE=v5.7.1

mkdir -p "$bin"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# Three attempts, because registries fail sometimes.
retry() { "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }; }

# Extracts only the program from its package: installing the package would start a server.
from_package() { # PACKAGE PROGRAM
    (cd "$here" && apt-get download -qq -o APT::Sandbox::User=root "$1" && dpkg-deb -x "$1"_*.deb "$1" && cp "$1/usr/bin/$2" "$bin/$2")
}

refreshed=
refresh() { [ -n "$refreshed" ] || { retry apt-get update -qq && refreshed=yes; }; }

if [ ! -x "$bin/promtool" ]; then
    echo "test tools: promtool, from Debian's package prometheus"
    refresh && retry from_package prometheus promtool
fi
if [ ! -x "$bin/kustomize" ]; then # Debian's kubectl is too old for the field labels
    echo "test tools: kustomize $KUSTOMIZE, with go install"
    GOBIN=$bin retry go install "sigs.k8s.io/kustomize/kustomize/v5@$KUSTOMIZE"
fi
if ! command -v systemd-analyze >/dev/null; then
    echo "test tools: systemd-analyze"
    refresh && DEBIAN_FRONTEND=noninteractive retry apt-get install -y -qq --no-install-recommends systemd >/dev/null
fi
if ! command -v krb5-config >/dev/null || ! command -v kinit >/dev/null || ! command -v faketime >/dev/null ||
    ! [ -x /usr/sbin/krb5kdc ] || ! [ -x /usr/sbin/kadmin.local ]; then
    echo "test tools: MIT Kerberos with a KDC, the headers that gssapi is built with, faketime"
    # The tests start a KDC of their own; this one must not start (policy-rc.d of Debian).
    policy=/usr/sbin/policy-rc.d
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && trap 'rm -rf "$here" $policy' EXIT; }
    refresh && DEBIAN_FRONTEND=noninteractive retry apt-get install -y -qq --no-install-recommends \
        faketime gcc libkrb5-dev krb5-user krb5-kdc krb5-admin-server >/dev/null
fi
