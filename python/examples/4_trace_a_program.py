"""Traces the cuDNN graphs of a program that never heard of fusewright, and lists who computes them. Needs a GPU."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """
import torch

model = torch.nn.Sequential(
    torch.nn.Conv2d(64, 128, 3, padding=1), torch.nn.BatchNorm2d(128), torch.nn.ReLU(), torch.nn.Conv2d(128, 64, 1)
).to("cuda", torch.bfloat16, memory_format=torch.channels_last)
images = torch.randn(32, 64, 56, 56, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
model(images).sum().backward()
print("cuDNN", torch.backends.cudnn.version(), "is behind", model(images).shape)
"""

with tempfile.TemporaryDirectory() as folder:
    program, trace = pathlib.Path(folder, "program.py"), pathlib.Path(folder, "trace")
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, "-m", "fusewright.cudnn", "--trace", trace, program], check=True)
    graphs: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for line in (trace / "trace.jsonl").read_text().splitlines():
        event = json.loads(line)
        facts = graphs[str(event["graph"])]
        match event["event"]:
            case "graph":
                verdict = event.get("verdict") or {}
                facts["verdict"] = verdict.get("engine") or verdict.get("status") or "not understood"
            case "measured":
                facts["times"] = f"fusewright {event['fusewright_ms']:.4f} ms, cuDNN {event['cudnn_ms']:.4f} ms"
            case "execution":
                facts["by"] = f"executed by {event['by']}"
    for key, facts in graphs.items():
        print(key, *facts.values(), sep="; ")
    # each graph's file is one that `fusewright check`, `explain` and `bench` read
    print(*sorted(path.name for path in trace.glob("*.json")), sep="\n")
