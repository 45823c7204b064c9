#!/usr/bin/env bash
# Makes the fuzz targets' first inputs in fuzz/corpus/TARGET/, the same each time, from the graphs of tests/data: those of
# the suite, one of each dialect and every 40th recorded one, and strings for the generator of random graphs. The words of
# these files go to fuzz/corpus/json.dict. What else is there stays.
#
#   scripts/fuzz-corpus.sh
set -euo pipefail
cd "$(dirname "$0")/.."

python3 - <<'PYTHON'
import gzip, hashlib, json, pathlib

DATA, CORPUS = pathlib.Path("tests/data"), pathlib.Path("fuzz/corpus")
BANNER = b"[cudnn_frontend] INFO: validating the graph\n"


def drawn(name, count):
    """Bytes that look random and depend on the name only."""
    return hashlib.shake_256(name.encode()).digest(count)


def compact(graph):
    return json.dumps(graph, separators=(",", ":")).encode()


def write(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def words(value):
    """Every key and string in a JSON value."""
    if isinstance(value, dict):
        return {word for item in value.items() for part in item for word in words(part)}
    if isinstance(value, list):
        return {word for part in value for word in words(part)}
    return {json.dumps(value)} if isinstance(value, str | bool | None) else set()


files = {path.stem: path.read_bytes() for path in sorted([*DATA.glob("suite/*.json"), *DATA.glob("json/*.json")])}
records = gzip.open(DATA / "verdicts.jsonl.gz").read().splitlines(keepends=True)[::40]
graphs = {name: compact(json.loads(text)) for name, text in files.items()}
graphs |= {f"record_{record['id']}": compact(record["graph"]) for record in map(json.loads, records)}
# Of each family, by the first byte.
strings = {f"string_{number}": bytes([number % 5]) + drawn(f"graph {number}", 256) for number in range(250)}

for name, text in (files | graphs).items():
    write("frontend_json", name, text)
    write("log_reader", name, drawn(name, 1) + BANNER + text + b"\n" + BANNER)
for number in range(0, len(records), 4):
    write("log_reader", f"records_{number}", drawn(f"records {number}", 1) + b"".join(records[number : number + 4]))

# Targets whose input is a graph, and the bytes before it that draw other things; a compilation takes long.
for target, draws in {"check": 1, "lower_and_render": 0, "nvrtc_compile": 4, "variant_pack": 32}.items():
    chosen = list((graphs | strings).items())[:: 4 if target == "nvrtc_compile" else 1]
    for name, content in chosen:
        write(target, name, drawn(name, draws) + content)
for number in range(100):
    write("cache_entry", f"damage_{number}", drawn(f"damage {number}", 32 + number))
for number in range(200):
    write("backend_api", f"program_{number}", drawn(f"program {number}", 64 + 8 * number))
known = set().union(*(words(json.loads(text)) for text in graphs.values()))
entries = (word.replace("\\", "\\\\").replace('"', '\\"') for word in sorted(known) if word.isascii())
(CORPUS / "json.dict").write_text("".join(f'"{entry}"\n' for entry in entries))
PYTHON
du -sh fuzz/corpus
