#!/bin/sh
# Runs verbs of make one after the other until one fails, and prints what each took.
# usage: timed.sh MAKE VERB...
set -eu

make=$1 && shift
code=0
times=
for verb in "$@"; do
    began=$(date +%s)
    $make --no-print-directory "$verb" || code=$?
    took=$(($(date +%s) - began))
    times="$times$(printf '%12s  %2d:%02d' "$verb" $((took / 60)) $((took % 60)))
"
    [ $code = 0 ] || break
done
printf 'minutes:\n%s' "$times"
exit $code
