"""Builds a graph, asks about it, and executes it.

The CPU engine does, or a GPU with ``cuda:0`` as argument, which takes PyTorch's tensors.
"""

from __future__ import annotations

import sys

import numpy as np

import fusewright

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"

graph = fusewright.pygraph(io_data_type="HALF", intermediate_data_type="FLOAT", compute_data_type="FLOAT")
x = graph.tensor(name="x", dim=[1, 64, 128], stride=[64 * 128, 128, 1])
w = graph.tensor(name="w", dim=[1, 128, 32], stride=[128 * 32, 32, 1])
bias = graph.tensor(name="bias", dim=[1, 1, 32], stride=[32, 32, 1])
y = graph.gelu(graph.bias(graph.matmul(x, w), bias)).set_output(True)

print(graph.check("sm_90"))

plan = fusewright.Session(DEVICE).plan(graph.finalize())
draw = np.random.default_rng(0).standard_normal
inputs = [draw(info.dim).astype(np.float16) for info in plan.inputs]
if DEVICE.startswith("cuda"):
    import torch

    (array,) = plan.run(*(torch.from_numpy(tensor).to(DEVICE) for tensor in inputs))
    result = torch.from_dlpack(array).cpu().numpy()
else:
    (array,) = plan.run(*inputs)
    result = np.from_dlpack(array)
print(f"{plan.engine}: y of {result.shape}, {result.dtype}, the first {result[0, 0, :4]}")
