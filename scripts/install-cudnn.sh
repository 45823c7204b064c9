#!/usr/bin/env bash
# Builds the shared library with the cuDNN 9 backend ABI, and installs it under the name that programs look for.
#
#   scripts/install-cudnn.sh FOLDER
#
# Programs find it with LD_LIBRARY_PATH=FOLDER, before any cuDNN that is installed.
#
# Its names have the version that cuDNN's have. Parts of a real cuDNN (9.28) call each other by names that this library has, too, and
# would call it for those without a version. GNU's linker is needed, as others do not know --default-symver.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: scripts/install-cudnn.sh FOLDER" >&2; exit 2; }

cargo rustc --release --locked -p fusewright-cudnn -- \
    -C link-arg=-fuse-ld=bfd -C link-arg=-Wl,-soname,libcudnn.so.9 -C link-arg=-Wl,--default-symver
mkdir -p "$1"
built=${CARGO_TARGET_DIR:-target}/${CARGO_BUILD_TARGET:-.}/release
install -m 755 "$built/libfusewright_cudnn.so" "$1/libcudnn.so.9"
ln -sf libcudnn.so.9 "$1/libcudnn.so"
echo "$1/libcudnn.so.9"
