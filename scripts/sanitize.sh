#!/usr/bin/env bash
# Runs the C ABI's tests under a tool that watches memory. Not part of continuous integration: a build takes minutes, and a
# target folder of its own.
#
#   scripts/sanitize.sh address [FILTER]     AddressSanitizer, then programs of the fuzz target backend_api under it; built
#                                            into target/sanitize/
#   scripts/sanitize.sh memcheck [FILTER]    the ordinary test binary under valgrind, with the processes that tests start
#
# FILTER chooses among the library's tests, `capi::` without one. FUSEWRIGHT_FUZZ_SECONDS: for how long the fuzz target runs,
# 60 without it, 0: not at all.
#
# Stable Rust brings AddressSanitizer's runtime, and RUSTC_BOOTSTRAP=1 lets it take the flag. There is nothing here for data
# races: ThreadSanitizer wants a standard library that is instrumented (`-Zbuild-std`, or the target
# x86_64-unknown-linux-gnutsan), and without one it takes an Arc, a OnceLock or a Condvar for a race, as do helgrind and drd.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0" >&2; exit 2; }

tool=${1:-}
filter=${2:-capi::}
seconds=${FUSEWRIGHT_FUZZ_SECONDS:-60}
# As .cargo/config.toml has it; the tests are not run by cargo.
[ ! -d .nv ] || export FUSEWRIGHT_NVRTC="${FUSEWRIGHT_NVRTC-$PWD/.nv}"
host=$(rustc -vV | sed -n 's/^host: //p')

# The executable of a cargo command's only binary or test.
built() {
    cargo "$@" --locked --message-format=json | python3 -c 'import json, sys
for line in sys.stdin:
    executable = json.loads(line).get("executable")
    if executable:
        print(executable)'
}

address() {
    local coverage test fuzz profile
    # What libFuzzer needs to tell inputs apart.
    coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$PWD/target/sanitize/address
    # The standard library is not instrumented.
    export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer $coverage"
    # Want of memory is the caller's to see, as without the tool.
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1
    # Given for the host alone, so that build scripts and macros are not instrumented.
    test=$(built test --lib --no-run --target "$host")
    "$test" "$filter"
    [ "$seconds" -gt 0 ] || return 0
    # Dependencies as the tests have them, so that they are built once for both.
    profile=(--config 'profile.dev.package."*".opt-level=2' --config 'profile.dev.debug="line-tables-only"')
    fuzz=$(built build --manifest-path fuzz/Cargo.toml --bin backend_api --target "$host" "${profile[@]}")
    mkdir -p "$CARGO_TARGET_DIR/corpus"
    "$fuzz" -max_total_time="$seconds" -rss_limit_mb=4096 -print_final_stats=1 "$CARGO_TARGET_DIR/corpus"
}

memcheck() {
    local test
    test=$(built test --lib --no-run)
    # Times are not those of the machine; what tests start is the same binary, beside the fake driver, and the compiler that builds that.
    local watch=(valgrind -q --error-exitcode=9 --suppressions=scripts/valgrind.suppressions --trace-children=yes
        --trace-children-skip='*/g++*,*/gcc*,*/cc*,*/as,*/ld*,*/collect2,*/sh')
    "${watch[@]}" --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        "$test" "$filter" --skip forks:: --skip take_no_time --test-threads=2
    # In a forked child, what the threads of its parent held is held by nobody.
    [ "$filter" != capi:: ] || "${watch[@]}" --leak-check=no "$test" capi::tests::forks:: --test-threads=2
}

case $tool in
address | memcheck) "$tool" ;;
*) usage ;;
esac
