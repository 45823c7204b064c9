#!/usr/bin/env python3
"""Writes the licences of the crates that the package's binaries are made of, which go into the wheel.

scripts/licences.py OUT

The crates are those that `cargo metadata` names for this machine behind the package and the shared library, without
what only builds or tests them. Texts that several crates share are written once. A crate without a text is an error.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOTS = {"fusewright-python", "fusewright-cudnn"}
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages behind the roots by ordinary dependencies, those of other people."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, waiting = set(), [id for id, package in packages.items() if package["name"] in ROOTS]
    while waiting:
        id = waiting.pop()
        if id in found:
            continue
        found.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    others = (packages[id] for id in found if packages[id]["source"])
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[str]:
    """The licences and notices in a crate's folder."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(NAMES))
    return [path.read_text(encoding="utf-8").strip() for path in files]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/licences.py OUT")
    target = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    crates_of = defaultdict(list)
    for package in linked(metadata):
        found = texts(package)
        if not found:
            sys.exit(f"licences: crate {package['name']} {package['version']} has no text of {package['license']}")
        for text in found:
            crates_of[text].append(f"{package['name']} {package['version']} ({package['license']})")
    parts = ["\n".join([*crates, "", text]) for text, crates in sorted(crates_of.items(), key=lambda item: item[1])]
    rule = f"\n\n{'-' * 100}\n\n"
    title = "The binaries of this package are made of these crates besides its own; their licences and notices:"
    Path(sys.argv[1]).write_text(rule.join([title, *parts]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
