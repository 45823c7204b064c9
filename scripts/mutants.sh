#!/usr/bin/env bash
# Plants defects one by one and tells which of them the tests notice. What the tests miss, a change may break unseen.
#
#   scripts/mutants.sh rust [OPTION…]           Rust code that decides what is legal and what is right: rules, fusion, lowering, the
#                                               CPU engine with its bounds, under `cargo test --lib`. OPTION goes to
#                                               cargo-mutants: --shard 3/500 takes a part, --list only lists, -f FILE narrows
#   scripts/mutants.sh templates [FROM [COUNT]] device code: rows FROM … of scripts/mutants.tsv, each under the emulator's
#                                               trials that it names
#
# A mutant is killed if a test fails or hangs. Both kinds work on copies; what they build stays in target/mutants/.
# cargo-mutants is built from its package into target/, once. A whole run takes days, so take shards; a mutant of the library costs
# its build without optimisation and its unit tests.
set -euo pipefail
cd "$(dirname "$0")/.."

version=27.1.0
python=${PYTHON:-python3}
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$folder/tools/cargo-mutants-$version
# Unit tests build faster than they are run slower by.
export CARGO_PROFILE_TEST_OPT_LEVEL=0 CARGO_PROFILE_TEST_DEBUG=none CARGO_PROFILE_DEV_DEBUG=none CARGO_INCREMENTAL=1

fail() { echo "mutants: $*" >&2; exit 2; }

rust() {
    if [ ! -x "$tools/bin/cargo-mutants" ]; then
        cargo install --locked --quiet --root "$tools" "cargo-mutants@$version" \
            || fail "cargo-mutants $version could not be installed (is the package registry reachable?)"
    fi
    mkdir -p "$folder/mutants"
    # Texts and what only formats them are nobody's defect; tests among the sources are left out by cargo-mutants itself.
    CARGO_TARGET_DIR=$folder/mutants/build "$tools/bin/cargo-mutants" mutants --sharding round-robin --baseline=skip --timeout 300 \
        --output "$folder/mutants" \
        -f 'src/support/**' -f 'src/fusion/**' -f 'src/engine/lowering/**' -f 'src/reference/**' \
        -E 'impl .*Display for' -E 'describe' \
        "$@" -- --lib -- reference:: support:: fusion:: engine:: fuzz:: kernel:: codegen::
}

# A copy of what git knows or would know of, with one defect.
plant() {
    "$python" - "$tree" "$@" <<'PYTHON'
import pathlib, subprocess, sys
tree, name, pattern, replacement = pathlib.Path(sys.argv[1]), f"templates/{sys.argv[2]}", *sys.argv[3:]
listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True)
planted = False
for file in filter(None, listed.stdout.decode().split("\0")):
    source, target = pathlib.Path(file), tree / file
    if not source.is_file():
        continue
    content = source.read_bytes()
    if file == name:
        planted = pattern.encode() in content
        content = content.replace(pattern.encode(), replacement.encode())
    # Only what differs is written: cargo goes by times.
    if not target.is_file() or target.read_bytes() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)
sys.exit(None if planted else f"{name} does not hold: {pattern}")
PYTHON
}

templates() {
    local from=${1:-1} count=${2:-1000} number=0 killed=0 survived=0
    tree=$folder/mutants/tree
    mkdir -p "$tree"
    while IFS=$'\t' read -r file pattern replacement trials; do
        case $file in ''|'#'*) continue ;; esac
        number=$((number + 1))
        [ "$number" -ge "$from" ] && [ "$number" -lt $((from + count)) ] || continue
        plant "$file" "$pattern" "$replacement" || fail "row $number of scripts/mutants.tsv is out of date"
        (cd "$tree" && CARGO_TARGET_DIR=$folder/mutants/build cargo test --locked --quiet --test tiers --no-run) >"$folder/mutants/build.log" 2>&1 \
            || fail "row $number does not build: $folder/mutants/build.log"
        local log=$folder/mutants/row-$number.log
        if (cd "$tree" && FUSEWRIGHT_REQUIRE_EMULATOR=1 CARGO_TARGET_DIR=$folder/mutants/build timeout 900 cargo test --locked --quiet --test tiers "$trials") \
            >"$log" 2>&1 </dev/null
        then
            grep -q ' 0 passed' "$log" && fail "row $number: no trial is named $trials"
            survived=$((survived + 1))
            echo "survived  $number  $file: $pattern -> $replacement  ($trials)"
        else
            killed=$((killed + 1))
            echo "killed    $number  $file: $pattern -> $replacement"
        fi
    done <scripts/mutants.tsv
    echo "$killed killed, $survived survived"
    [ "$survived" -eq 0 ]
}

case ${1:-} in
    rust) shift; rust "$@" ;;
    templates) shift; templates "$@" ;;
    *) fail "scripts/mutants.sh rust|templates (see its head)" ;;
esac
