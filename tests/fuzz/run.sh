#!/bin/sh
# Every target for some seconds (CADRE_FUZZ_SECONDS, 2), in a folder of its own.
set -eu
sources=$(cd "$(dirname "$0")" && pwd)
programs=$PWD/tests/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for target in message json connection cell; do
    "$programs/fuzz_$target" "$sources/corpus/$target" "${CADRE_FUZZ_SECONDS:-2}" ${CADRE_FUZZ_SEED:-} || {
        echo "fuzz_$target broke; the input:"
        head -c 2000 fuzz-last-input | od -c | head -n 60
        exit 1
    }
done
