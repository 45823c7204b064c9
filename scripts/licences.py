#!/usr/bin/env python3
"""Collects the licences of what the Python wheel's libraries are linked from: crates, and Rust's standard library.

    scripts/licences.py FOLDER

writes FOLDER/LICENSE-CRATES.txt, each text once with the crates that come with it, and FOLDER/LICENSE-RUST-LIBRARY.html
where the toolchain has it. CARGO_BUILD_TARGET counts as for cargo. deny.toml says which licences there may be.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINKED = ("fusewright-python", "fusewright-cudnn")
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
RULE = "-" * 100


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def linked_crates(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Crates of others that are linked, features of the whole workspace taken together.

    Neither macros nor what only builds or tests need is linked.
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}

    def is_macro(crate: str) -> bool:
        return any("proc-macro" in target["kind"] for target in packages[crate]["targets"])

    pending = [crate for crate in metadata["workspace_members"] if packages[crate]["name"] in LINKED]
    seen = set(pending)
    while pending:
        for dependency in nodes[pending.pop()]["deps"]:
            crate = dependency["pkg"]
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and crate not in seen and not is_macro(crate):
                seen.add(crate)
                pending.append(crate)
    others = seen.difference(metadata["workspace_members"])
    return sorted((packages[crate] for crate in others), key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[str]:
    folder = pathlib.Path(package["manifest_path"]).parent
    paths = {path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(NAMES)}
    if package["license_file"]:
        paths.add(folder / package["license_file"])
    return [path.read_text(encoding="utf-8", errors="replace").strip("\n") for path in sorted(paths)]


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: scripts/licences.py FOLDER", file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    version = output("rustc", "-vV").splitlines()
    host = next(line.removeprefix("host: ") for line in version if line.startswith("host: "))
    target = os.environ.get("CARGO_BUILD_TARGET") or host
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"))

    crates = linked_crates(metadata)
    # Lines are wrapped differently in what is one text otherwise.
    owners: dict[str, tuple[str, list[str]]] = {}
    without = []
    for package in crates:
        name = f"{package['name']} {package['version']}"
        found = texts(package)
        if not found:
            without.append(name)
        for text in found:
            named = owners.setdefault(" ".join(text.split()), (text, []))[1]
            if name not in named:
                named.append(name)
    if without:
        print(f"licences: no text of a licence in the package of {', '.join(without)}", file=sys.stderr)
        return 1

    lines = ["Crates in the libraries of this package, and the licences that each offers", ""]
    lines += [f"{package['name']} {package['version']}: {package['license']}" for package in crates]
    for text, named in owners.values():
        lines += ["", RULE, *named, RULE, "", text]
    (folder / "LICENSE-CRATES.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    notices = pathlib.Path(output("rustc", "--print=sysroot").strip(), "share/doc/rust/COPYRIGHT-library.html")
    if notices.is_file():
        shutil.copyfile(notices, folder / "LICENSE-RUST-LIBRARY.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
