#!/usr/bin/env bash
# The Python package: builds its wheel with maturin, installs it into an environment of its own, and runs its tests there. No GPU is needed.
#
#   scripts/python.sh                    a development build, lints and tests
#   scripts/python.sh --torch            the same, with PyTorch in the environment (3 GB), and all tests of torch.compile
#   scripts/python.sh --wheel FOLDER     a release wheel with the shared library of cuDNN's ABI inside, and no tests
#
# The environment lies in target/python. PYTHON names the interpreter (3.10 or newer, with venv and pip), python3 unless it is set.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "python: $*" >&2; exit 1; }

python=${PYTHON:-python3}
target=${CARGO_TARGET_DIR:-$PWD/target}
environment=$target/python
packages=(pytest numpy ruff mypy)
# PyTorch's types are not there without it.
types=(fusewright --exclude '^fusewright/torch/')
mode=test folder=$target/wheels more=()
case "${1:-}" in
'') ;;
--torch) packages+=('torch==2.11.*') types=(fusewright) more=(--slow) ;;
--wheel) mode=wheel folder=${2:?usage: scripts/python.sh --wheel FOLDER} ;;
*) echo "usage: scripts/python.sh [--torch | --wheel FOLDER]" >&2; exit 2 ;;
esac

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "'$python' is older than 3.10; set PYTHON"
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment" || fail "'$python -m venv' does not work; install it, or set PYTHON"
pip=("$environment/bin/python" -m pip --disable-pip-version-check -q)
"${pip[@]}" install 'maturin>=1.9,<2' || fail "pip could not install maturin (is a package index reachable?)"

# The repository's licences, and those of the crates inside.
cp LICENSE-APACHE LICENSE-MIT python/
"$python" scripts/licences.py python/LICENSE-CRATES || fail "cargo could not tell what the package is made of"
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
"$environment/bin/ruff" check python
"$environment/bin/ruff" format --check python
(cd python && "$environment/bin/mypy" "${types[@]}")
# Away from the sources, so that the wheel is what is imported.
(cd "$target" && "$environment/bin/stubtest" fusewright._core)
(cd "$target" && "$environment/bin/python" -m pytest -q -c "$OLDPWD/python/pyproject.toml" --rootdir "$OLDPWD/python" "${more[@]}" "$OLDPWD/python/tests")
