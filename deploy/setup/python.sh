#!/bin/sh
# Prints the path of Python 3.11 or newer. Tries $PYTHON first, then python3, then versioned names.
set -eu

for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    path=$(command -v "$candidate" 2>/dev/null) || continue
    if "$path" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        "$path" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
echo "setup: error: Python 3.11 or newer is required, none found" >&2
echo "    fix: install it, or give its path: make setup PYTHON=/path/to/python3" >&2
exit 2
