#!/usr/bin/env bash
# The Python package: builds its wheel with maturin, installs it into an environment of its own, and runs its tests there. No GPU is needed.
#
#   scripts/python.sh                    a development build, lints and tests
#   scripts/python.sh --torch            the same, with PyTorch in the environment (3 GB), and all tests of torch.compile
#   scripts/python.sh --wheel FOLDER     a release wheel with the shared library of cuDNN's ABI inside, in place of an older one; no tests
#
# The environment lies in target/python. PYTHON names the interpreter (3.10 or newer, with venv and pip), python3 unless it is set.
# CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu --wheel: a wheel for that machine, with its linker (docs/python.md).
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

fail() { echo "python: $*" >&2; exit 1; }
usage() { echo "usage: scripts/python.sh [--torch | --wheel FOLDER]" >&2; exit 2; }

python=${PYTHON:-python3}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
environment=$target/python
packages=(pytest numpy ruff mypy)
# PyTorch's types are not there without it.
types=(fusewright --exclude '^fusewright/torch/')
# Beside a wheel for use, not in its place.
mode=test folder=$target/wheels/dev more=()
case "$#:${1:-}" in
0:) ;;
1:--torch) packages+=('torch==2.11.*') types=(fusewright) more=(--slow) ;;
2:--wheel) mode=wheel folder=$2 ;;
*) usage ;;
esac
case $folder in
'' | -*) usage ;;
/*) ;;
*) folder=$here/$folder ;;
esac

# What is missing is told now, not after minutes of compiling.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 10))') \
    || fail "'$python' is ${version:-no interpreter}; required: Python 3.10 or newer; set PYTHON"
command -v cargo >/dev/null || fail "there is no cargo; install Rust 1.95 or newer (https://rustup.rs)"
command -v cc >/dev/null || fail "there is no C compiler 'cc', with which Rust links; install gcc"
{ mkdir -p "$folder" && [ -w "$folder" ]; } || fail "'$folder' is not a folder that can be written"

# One of another version, or one that was left half made, is made anew.
found=$("$environment/bin/python" -c 'import pip, sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || found=none
[ "$found" = "$version" ] || "$python" -m venv --clear "$environment" \
    || fail "'$python -m venv' does not work; install it (Debian: python3-venv), or set PYTHON"
pip=("$environment/bin/python" -m pip --disable-pip-version-check -q)
"${pip[@]}" install 'maturin>=1.9,<2' || fail "pip could not install maturin (is a package index reachable?)"

# The package's licences: the repository's, and those of what is linked in.
rm -f python/LICENSE-*
cp LICENSE-APACHE LICENSE-MIT python/
"$environment/bin/python" scripts/licences.py python
profile=(--profile dev)
library=python/fusewright/_lib
rm -rf "$library"
if [ $mode = wheel ]; then
    profile=(--release)
    scripts/install-cudnn.sh "$library" > /dev/null
    rm "$library/libcudnn.so" # a wheel has no links
fi
rm -f "$folder"/fusewright-*.whl
"$environment/bin/maturin" build --locked "${profile[@]}" --manifest-path python/Cargo.toml --out "$folder" --interpreter "$environment/bin/python"
wheel=$(ls "$folder"/fusewright-*.whl)
if [ $mode = wheel ]; then
    rm -rf "$library"
    echo "$wheel"
    exit
fi

"${pip[@]}" install "${packages[@]}"
# Whose names and keywords the builder has; its own dependencies are not needed to read them.
"${pip[@]}" install --no-deps 'nvidia-cudnn-frontend==1.32.0'
"${pip[@]}" install --force-reinstall --no-deps "$wheel"
(
    cd python
    "$environment/bin/ruff" check . ../scripts/licences.py
    "$environment/bin/ruff" format --check . ../scripts/licences.py
    "$environment/bin/mypy" "${types[@]}"
    "$environment/bin/mypy" ../scripts/licences.py
)
# Away from the sources, so that the wheel is what is imported.
(cd "$target" && "$environment/bin/stubtest" fusewright._core)
(cd "$target" && "$environment/bin/python" -m pytest -q -c "$OLDPWD/python/pyproject.toml" --rootdir "$OLDPWD/python" "${more[@]}" "$OLDPWD/python/tests")
