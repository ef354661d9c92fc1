#!/bin/sh
# Checks for Java 17 or newer, which Spark and the brokers of the demo and the tests need. As root on a Debian-like
# system it installs a headless JDK if there is none.
set -eu

java_command() {
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; else echo java; fi
}

# 17.0.2 is 17, 1.8.0_402 is 8, no Java is 0.
major_version() {
    "$(java_command)" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1 | grep . || echo 0
}

install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ -z "${JAVA_HOME:-}" ] || return 1
    echo "setup: installing Java" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    for package in openjdk-21-jdk-headless openjdk-17-jdk-headless default-jdk-headless; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            apt-get install -y -qq --no-install-recommends "$package" >/dev/null
            return 0
        fi
    done
    return 1
}

advice() {
    if [ -n "${JAVA_HOME:-}" ]; then
        echo "set JAVA_HOME (now $JAVA_HOME) to a newer version, or unset it"
    elif command -v apt-get >/dev/null; then
        echo "sudo apt-get install openjdk-17-jdk-headless (or -21-)"
    elif command -v dnf >/dev/null; then
        echo "sudo dnf install java-21-openjdk-headless java-21-openjdk-devel"
    elif command -v apk >/dev/null; then
        echo "apk add openjdk21"
    elif command -v brew >/dev/null; then
        echo "brew install openjdk@21, and add it to PATH or JAVA_HOME as brew describes"
    else
        echo "install JDK 17 or newer (https://adoptium.net) and add it to PATH or JAVA_HOME"
    fi
}

found=$(major_version)
if [ "$found" -lt 17 ]; then
    install || true
    found=$(major_version)
fi
if [ "$found" -lt 17 ]; then
    if [ "$found" = 0 ]; then said="no Java found"; else said="found Java $found"; fi
    echo "setup: error: Java 17 or newer is required, $said" >&2
    echo "    fix: $(advice)" >&2
    exit 2
fi
echo "$found"
