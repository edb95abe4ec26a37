#!/bin/sh
# The same targets under clang's libFuzzer with AddressSanitizer and UBSan, from the root of the
# source: libfuzzer.sh BUILD SECONDS. BUILD is where it compiles; a configured tree for config.h is
# beside it. What broke a target stays in BUILD.
set -eu
build=$1 seconds=$2 failed=0 passed=0
configured=${CADRE_FUZZ_CONFIGURED:-build/check}
command -v clang >/dev/null || { echo "clang is missing"; exit 1; }
mkdir -p "$build"
flags="-std=gnu17 -g -O1 -D_GNU_SOURCE -DHAVE_CONFIG_H -I. -Ikernel -Iruntime -I$configured
    $(pkg-config --cflags libzmq libsodium jansson) -fsanitize=fuzzer,address,undefined
    -fno-sanitize-recover=undefined"
for target in message json connection cell; do
    sources="tests/fuzz/fuzz_$target.c runtime/base/base.c runtime/base/text.c"
    case $target in
    cell)
        for name in arena complete conditions declare macros map read split tokens uses; do
            sources="$sources kernel/cell/$name.c"
        done
        ;;
    *) sources="$sources $(ls kernel/wire/*.c)" ;;
    esac
    # shellcheck disable=SC2086
    clang $flags -w -o "$build/fuzz_$target" $sources \
        $(pkg-config --libs libzmq libsodium jansson) -lm -pthread
    mkdir -p "$build/corpus-$target"
    if "$build/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$build/$target-" -verbosity=0 -print_final_stats=1 \
        "$build/corpus-$target" "tests/fuzz/corpus/$target" 2>"$build/$target.log"; then
        passed=$((passed + 1))
        echo "NOTE: fuzz_$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log") inputs"
    else
        failed=$((failed + 1))
        tail -n 40 "$build/$target.log"
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
