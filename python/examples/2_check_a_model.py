"""Which matmuls and convolutions of a PyTorch model an engine takes, with what surrounds them, and why not the others.

No GPU is needed.
"""

from __future__ import annotations

import torch

import fusewright.torch


class Block(torch.nn.Module):
    """A convolution with its batch norm, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(32)
        self.classifier = torch.nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.norm(self.convolution(x)))
        return torch.nn.functional.gelu(self.classifier(features.mean((2, 3))))


model = Block().eval().to(memory_format=torch.channels_last)
image = torch.randn(2, 16, 8, 8).to(memory_format=torch.channels_last)
with torch.no_grad():
    # on the CPU regions are taken for verification alone, which "always" asks for
    print(fusewright.torch.explain(model, image, options={"fusewright.select": "always"}))
