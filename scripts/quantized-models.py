#!/usr/bin/env python3
"""Models whose linear layers multiply INT8 or FP8, compiled by Inductor and by fusewright, and timed on a GPU.

    scripts/quantized-models.py [--only bert_int8,llama_fp8] [--backends inductor,fusewright] [--json OUT] [--explain]

Weights are random, and quantized once with a scale for each of a layer's outputs; what is multiplied with them is
quantized as the model runs, with a scale for each token. INT8 layers are `torch._int_mm`, whose sums are scaled in
FLOAT, FP8 ones `torch._scaled_mm`. Times are medians of replays of a CUDA graph. An error is the largest, relative to
the largest value of the model in FLOAT without quantization, so that eager PyTorch's stands beside. Needs a GPU,
PyTorch, transformers, and the package fusewright.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fusewright.torch import explain
from torch import Tensor, nn
from triton.testing import do_bench

LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


def quantized(x: Tensor, data_type: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows as numbers of a narrow type, and the FLOAT scale of each row."""
    scale = x.abs().amax(-1, keepdim=True).float().clamp_min(1e-12) / LARGEST[data_type]
    scaled = x.float() / scale
    return (scaled.round() if data_type is torch.int8 else scaled).to(data_type), scale


class QuantizedLinear(nn.Module):
    """A linear layer whose products are of INT8 or FP8."""

    def __init__(self, linear: nn.Linear, data_type: torch.dtype) -> None:
        super().__init__()
        weight, scale = quantized(linear.weight.detach(), data_type)
        self.data_type, self.bias = data_type, linear.bias
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.t().contiguous())

    def forward(self, x: Tensor) -> Tensor:
        rows, scale = quantized(x.reshape(-1, x.shape[-1]), self.data_type)
        if self.data_type is torch.int8:
            y = torch._int_mm(rows, self.weight.t()).float() * scale * self.scale
            y = (y if self.bias is None else y + self.bias).to(x.dtype)
        else:
            scales = (scale, self.scale)
            y = torch._scaled_mm(rows, self.weight.t(), *scales, self.bias, out_dtype=x.dtype, use_fast_accum=True)
        return y.reshape(*x.shape[:-1], -1)


def quantize(module: nn.Module, data_type: torch.dtype) -> nn.Module:
    """Replaces every linear layer, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, QuantizedLinear(child, data_type))
        else:
            quantize(child, data_type)
    return module


def in_bfloat16(module: nn.Module) -> nn.Module:
    """Converts the parameters, in place.

    Buffers keep their type: BFLOAT16 cannot tell the multiples of rotary embeddings' frequencies apart.
    """
    for parameter in module.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return module


def bert() -> tuple[nn.Module, Tensor]:
    from transformers import BertConfig, BertModel

    shape = {"hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16, "intermediate_size": 4096}
    config = BertConfig(**shape, vocab_size=1024, attn_implementation="sdpa")
    return BertModel(config, add_pooling_layer=False), torch.randint(0, 1024, (16, 512))


def llama() -> tuple[nn.Module, Tensor]:
    from transformers import LlamaConfig, LlamaModel

    shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    config = LlamaConfig(**shape, num_hidden_layers=4, vocab_size=1024, attn_implementation="sdpa", use_cache=False)
    return LlamaModel(config), torch.randint(0, 1024, (1, 4096))


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Tensor]], torch.dtype]] = {
    "bert_int8": (bert, torch.int8),
    "bert_fp8": (bert, torch.float8_e4m3fn),
    "llama_int8": (llama, torch.int8),
    "llama_fp8": (llama, torch.float8_e4m3fn),
}


def measured(model: nn.Module, tokens: Tensor, want: Tensor, backend: str) -> dict[str, Any]:
    torch.compiler.reset()
    compiled = model if backend == "eager" else torch.compile(model, backend=backend)
    start = time.perf_counter()
    found = compiled(tokens).last_hidden_state
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    for _ in range(3):
        compiled(tokens)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(tokens)
    median = do_bench(graph.replay, warmup=50, rep=400, return_mode="median")
    error = ((found.float() - want).abs().max() / want.abs().max()).item()
    return {"backend": backend, "median_ms": median, "error": error, "first_call_s": round(seconds, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(MODELS), help="models, by commas")
    parser.add_argument("--backends", default="eager,inductor,fusewright")
    parser.add_argument("--json", type=Path, metavar="OUT", help="writes the records, too")
    parser.add_argument("--explain", action="store_true", help="tells of each anchor what became of it")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(MODELS)
    if unknown:
        parser.error(f"no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    if not torch.cuda.is_available():
        parser.error("no GPU that PyTorch can use")
    records = []
    for name in arguments.only.split(","):
        make, data_type = MODELS[name]
        torch.manual_seed(0)
        model, tokens = make()
        model, tokens = model.eval().cuda(), tokens.cuda()
        with torch.no_grad():
            want = model(tokens).last_hidden_state.float()
            narrow = quantize(in_bfloat16(copy.deepcopy(model)), data_type)
            for backend in arguments.backends.split(","):
                records.append({"model": name, **measured(narrow, tokens, want, backend)})
                print(json.dumps(records[-1]), flush=True)
                if arguments.json:
                    arguments.json.write_text(json.dumps(records, indent=1))
            if arguments.explain:
                print(explain(narrow, tokens).text, flush=True)


if __name__ == "__main__":
    main()
