"""Compiles a model by Inductor and by fusewright, and times both on a GPU."""

from __future__ import annotations

import torch
from triton.testing import do_bench


class Mlp(torch.nn.Module):
    """Two linear layers with GELU between them and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4096, 14336), torch.nn.Linear(14336, 4096)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x), approximate="tanh"))


model = Mlp().to("cuda", torch.bfloat16).eval()
tokens = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    want = model(tokens)
    for backend in ("inductor", "fusewright"):
        torch.compiler.reset()
        compiled = torch.compile(model, backend=backend)
        error = (compiled(tokens) - want).abs().max().item()
        median = do_bench(lambda: compiled(tokens), return_mode="median")  # noqa: B023
        print(f"{backend}: {median:.3f} ms, at most {error:.3g} from eager")
