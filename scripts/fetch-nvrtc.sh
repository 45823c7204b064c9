#!/usr/bin/env bash
# Installs what the `nvrtc` test tier needs, without a GPU or a CUDA toolkit, from the Python package index:
#
#   .nv/13   NVRTC 13.0.88 (sm_75 and up), nvdisasm and cuobjdump 13.5.37
#   .nv/12   NVRTC 12.9.86 (the last line that knows sm_70)
#
# `.nv/` lies in the repository root and is ignored by git. What cargo runs in the repository finds it: .cargo/config.toml reads
# .nv/cargo.toml, which sets FUSEWRIGHT_NVRTC unless it is set. The program in target/ finds it, too, wherever it is run; for other
# programs, FUSEWRIGHT_NVRTC=REPOSITORY/.nv names it.
# The two versions stay in two folders. Safe to run again: a finished folder is left alone, an unfinished one is redone.
#
# usage: scripts/fetch-nvrtc.sh [12] [13]      both without an argument
set -euo pipefail

fail() { echo "fetch-nvrtc: $*" >&2; exit 1; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "$python not found; install Python 3 with pip, or set PYTHON"
"$python" -m pip --version >/dev/null 2>&1 || fail "'$python -m pip' does not work; install pip"

# install FOLDER PACKAGE==VERSION...
install() {
    local folder=$root/.nv/$1 part=$root/.nv/$1.part
    shift
    local stamp=$folder/.installed wanted="$*"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        echo "$folder is up to date"
        return
    fi
    rm -rf "$part"
    mkdir -p "$part/wheels"
    "$python" -m pip download -q --no-deps --only-binary=:all: -d "$part/wheels" "$@" \
        || fail "pip could not download: $wanted (is a package index reachable?)"
    local wheel
    for wheel in "$part"/wheels/*.whl; do
        "$python" -m zipfile -e "$wheel" "$part" || fail "cannot unpack $wheel (is the disk full?)"
    done
    rm -rf "$part/wheels"
    # The .alt libraries are the same compiler with another allocator.
    find "$part" -name '*.alt.so.*' -delete
    # zipfile drops the mode bits.
    find "$part" -path '*/bin/*' -type f -exec chmod +x {} +
    echo "$wanted" >"$part/.installed"
    rm -rf "$folder"
    mv "$part" "$folder"
    echo "$folder: $wanted"
}

[ $# -gt 0 ] || set -- 13 12
for version in "$@"; do
    case $version in
    13) install 13 nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvdisasm==13.5.37 nvidia-cuda-cuobjdump==13.5.37 ;;
    12) install 12 nvidia-cuda-nvrtc-cu12==12.9.86 ;;
    *) fail "unknown version '$version'; usage: scripts/fetch-nvrtc.sh [12] [13]" ;;
    esac
done
# Read by .cargo/config.toml. The path is relative to the repository.
printf '[env]\nFUSEWRIGHT_NVRTC = { value = ".nv", relative = true }\n' >"$root/.nv/cargo.toml"
echo "cargo run and cargo test find it; for other programs: export FUSEWRIGHT_NVRTC=$root/.nv"
