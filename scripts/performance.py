#!/usr/bin/env python3
"""Put one run of the suite, or of a part of it, beside its peers into docs/performance.json, from which a test makes docs/performance.md
and its picture. A run takes the place of the one that is called the same.

    scripts/performance.py OURS.json PEERS.json --what "matmuls" --machine "one NVIDIA H200, …" --date 2026-11-23 --commit 0123abc \\
        --command "…"

OURS.json is what `fusewright bench --json` writes. PEERS.json has a list "cases" of {"case", "median_ms", "best_ms", "torch_ms",
"inductor_ms", "flops", "bytes"}: the library's first plan, the best of its plans, eager PyTorch and Inductor, in milliseconds, all measured
in the same run on the same machine. Then: FUSEWRIGHT_BLESS=1 cargo test --test pictures
"""

import argparse
import json
import re
import sys

# The first pattern that a case's name matches tells its class; every case has one.
CLASSES = [
    ("matmul, FP8", r"^b?mm_.*fp8"),
    ("matmul, INT8 and mixed types", r"^b?mm_.*i8"),
    ("matmul, up to 64 rows", r"^b?mm_.*_m(1|16|64)(_|$)"),
    ("matmul with a prologue", r"^mm_g1"),
    ("matmul, plain", r"^(bmm_|mm_(bf16|f16|f32_tf32)_[0-9x]+$)"),
    ("matmul with an epilogue", r"^b?mm_"),
    ("convolution, grouped", r"^conv.*(group|depthwise|dw)"),
    ("convolution, forward", r"^conv"),
    ("convolution, data gradient", r"^dgrad"),
    ("convolution, filter gradient", r"^wgrad"),
    ("pointwise", r"^pw_"),
    ("reduction", r"^red_"),
    ("layer norm, RMS norm, forward", r"^(ln|rms)_(fwd|infer|add)"),
    ("layer norm, RMS norm, backward", r"^(ln|rms)_bwd"),
    ("instance norm, batch norm, forward", r"^(in_|bn_(fwd|add|relu|finalize))"),
    ("batch norm, backward", r"^bn_bwd"),
    ("attention, FP8", r"^sdpa_.*fp8"),
    ("attention, decoding", r"^sdpa_decode"),
    ("attention, backward", r"^sdpa_bwd"),
    ("attention, forward", r"^sdpa_fwd"),
]
PEERS = [("cuDNN", "median_ms"), ("cuDNN, best plan", "best_ms"), ("PyTorch", "torch_ms"), ("Inductor", "inductor_ms")]


def cases(path):
    data = json.load(open(path))
    return {case["case"]: case for case in (data["cases"] if isinstance(data, dict) else data)}


def class_of(name):
    for title, pattern in CLASSES:
        if re.search(pattern, name):
            return title
    sys.exit(f"{name} is in no class")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("peers")
    for name in ("what", "machine", "date", "commit", "command"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--out", default="docs/performance.json")
    options = parser.parse_args()
    ours, peers = cases(options.ours), cases(options.peers)
    rows = []
    for name, measured in ours.items():
        peer = peers.get(name, {})
        times = {title: round(peer[key], 4) for title, key in PEERS if peer.get(key)}
        row = {"case": name, "class": class_of(name), "ms": round(measured["median_ms"], 4), "engine": measured["engine"]}
        row["fraction_of_floor"] = round(measured["fraction_of_floor"], 3)
        row["build_ms"] = round(measured["build_ms"], 1)
        row["peers"] = times
        rows.append(row)
    order = [title for title, _ in CLASSES]
    rows.sort(key=lambda row: (order.index(row["class"]), row["case"]))
    absent = sorted(set(peers) - set(ours) - {"ceilings"})
    meta = {name: getattr(options, name) for name in ("what", "machine", "date", "commit", "command")}
    run = {**meta, "not_run": absent, "cases": rows}
    runs = json.load(open(options.out))["runs"]
    places = [place for place, other in enumerate(runs) if other["what"] == run["what"]]
    place = places[0] if places else len(runs)
    runs[place : place + 1] = [run]
    with open(options.out, "w") as out:
        json.dump({"runs": runs}, out, indent=1)
        out.write("\n")


main()
