#!/usr/bin/env bash
# Packs what a GPU machine without Rust needs into one folder: release binaries, graphs, a script that runs the device tier.
#
#   scripts/bundle.sh [FOLDER]      default: bundle/
#
# On the GPU machine: FOLDER/run.sh [test filter]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-bundle}

cargo build --release --bin fusewright
# The file that cargo built for a test or bench target.
built() {
  cargo "$@" --no-run --message-format=json | python3 -c 'import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and set(message["target"]["kind"]) & {"test", "bench"}:
        print(message["executable"])'
}
tiers=$(built test --release --test tiers)
pipeline=$(built bench --bench pipeline)
runtime=$(built bench --bench runtime)

mkdir -p "$folder"
cp "${CARGO_TARGET_DIR:-target}/release/fusewright" "$folder/fusewright"
cp "$tiers" "$folder/tiers"
cp "$pipeline" "$folder/pipeline-bench"
cp "$runtime" "$folder/runtime-bench"
strip "$folder/tiers" "$folder/pipeline-bench" "$folder/runtime-bench"
rm -rf "$folder/data"
cp -r tests/data "$folder/data"
cat > "$folder/run.sh" <<'RUN'
#!/usr/bin/env bash
# Times the pipeline's stages and the runtime, then runs the device tier and prints passed, failed and skipped.
# Arguments go to the test binary (a filter, --list, …); with any, nothing is timed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export FUSEWRIGHT_DATA="$here/data" FUSEWRIGHT_REQUIRE_DEVICE=1
"$here/fusewright" doctor || true
[ $# -gt 0 ] || { "$here/pipeline-bench"; "$here/runtime-bench"; } || true
"$here/tiers" "${1:-device::}" "${@:2}"
RUN
chmod +x "$folder/run.sh"
size=$(du -sm "$folder" | cut -f1)
echo "$folder: $size MiB"
[ "$size" -le 60 ] || { echo "the bundle is larger than 60 MiB" >&2; exit 1; }
