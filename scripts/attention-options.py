#!/usr/bin/env python3
"""What options of attention cost, beside FlexAttention and cuDNN: modifiers of scores forward, and deterministic gradients.

    scripts/attention-options.py OUT.json [--without-flex]

Everything goes through the cuDNN frontend, so that the library that answers is the one that the loader finds: NVIDIA's, or the one that
`scripts/install-cudnn.sh` installs. Run it with each, on one machine. It needs PyTorch, Triton and the frontend. Causal BFLOAT16 attention of
4 × 16 × 4096 × 128: bare, capped scores, ALiBi; and documents packed one after another (ragged rows; FlexAttention's mask of documents).
"""

import argparse
import itertools
import json
import math

import cudnn
import torch
from triton.testing import do_bench

BATCH, HEADS, ROWS, SIZE, CAP = 4, 16, 4096, 128, 30.0
DOCUMENTS = [128, 256, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 1792, 2048, 2432, 2432]
GRADIENTS = {  # batch, heads, heads of keys, rows, elements of a head and of values, causal
    "d128 causal": (4, 32, 32, 4096, 128, 128, True),
    "d128": (4, 32, 32, 4096, 128, 128, False),
    "192/128 causal": (1, 128, 128, 4096, 192, 128, True),
    "gqa 8192 causal": (2, 32, 8, 8192, 128, 128, True),
}
BFLOAT16, FLOAT = cudnn.data_type.BFLOAT16, cudnn.data_type.FLOAT


def time(run):
    return do_bench(run, warmup=20, rep=80, return_mode="median")


def heads(batch, rows, count, size):
    return torch.randn((batch, rows, count, size), device="cuda").to(torch.bfloat16).transpose(1, 2)


class Built:
    """A graph of the frontend and what is bound to it."""

    def __init__(self, handle):
        types = dict(io_data_type=BFLOAT16, intermediate_data_type=FLOAT, compute_data_type=FLOAT)
        self.graph, self.handle, self.pack = cudnn.pygraph(handle=handle, **types), handle, {}

    def input(self, value):
        tensor = self.graph.tensor_like(value)
        if not value.is_cuda:
            tensor.set_is_pass_by_value(True)
        self.pack[tensor] = value
        return tensor

    def output(self, tensor, value, data_type=BFLOAT16):
        tensor.set_output(True).set_data_type(data_type).set_dim(list(value.shape)).set_stride(list(value.stride()))
        self.pack[tensor] = value

    def milliseconds(self, plans=4):
        graph = self.graph
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans(cudnn.build_plan_policy.HEURISTICS_CHOICE)
        times = []
        for number in range(min(plans, graph.get_execution_plan_count())):
            try:
                graph.build_plan_at_index(number)
                size = max(graph.get_workspace_size_plan_at_index(number), 1)
                workspace = torch.empty(size, device="cuda", dtype=torch.uint8)
                times.append(time(lambda: graph.execute_plan_at_index(self.pack, workspace, number, handle=self.handle)))
            except Exception:
                continue
        return min(times)


def capped_causal(graph, scores, cap, fill):
    """`cap · tanh(score / cap)`, and the causal mask, of the frontend's operations."""
    capped = graph.mul(a=graph.tanh(input=graph.div(a=scores, b=cap)), b=cap)
    rows, columns = (graph.gen_index(input=capped, axis=axis).set_data_type(cudnn.data_type.INT32) for axis in (2, 3))
    kept = graph.cmp_ge(input=rows, comparison=columns, compute_data_type=cudnn.data_type.BOOLEAN)
    kept.set_data_type(cudnn.data_type.BOOLEAN)
    return graph.binary_select(input0=capped, input1=fill, mask=kept)


def forward(handle, option):
    built = Built(handle)
    q, k, v = (heads(BATCH, ROWS, HEADS, SIZE) for _ in range(3))
    options = dict(use_causal_mask=True)
    if option == "alibi":
        options["use_alibi_mask"] = True
    if option == "cap":
        cap, fill = (built.input(torch.full((1, 1, 1, 1), value)) for value in (CAP, -1e9))
        options = dict(score_mod=lambda graph, scores: capped_causal(graph, scores, cap, fill))
    named = dict(q=built.input(q), k=built.input(k), v=built.input(v))
    o, statistics = built.graph.sdpa(**named, generate_stats=True, attn_scale=1 / math.sqrt(SIZE), **options)
    built.output(o, torch.empty_like(q))
    built.output(statistics, torch.empty((BATCH, HEADS, ROWS, 1), device="cuda"), FLOAT)
    return built.milliseconds()


def documents(handle):
    built = Built(handle)
    batch, most, total = len(DOCUMENTS), max(DOCUMENTS), sum(DOCUMENTS)
    starts = torch.tensor([0, *itertools.accumulate(DOCUMENTS)], device="cuda")
    lengths = torch.tensor(DOCUMENTS, device="cuda", dtype=torch.int32).view(batch, 1, 1, 1)
    offsets = {size: built.input((starts * HEADS * size).view(batch + 1, 1, 1, 1)) for size in (SIZE, 1)}

    def ragged(tensor, size, dtype=torch.bfloat16, data_type=BFLOAT16):
        value = torch.randn((total, HEADS, size), device="cuda").to(dtype)
        dim, stride = [batch, HEADS, most, size], [most * HEADS * size, size, HEADS * size, 1]
        if tensor is None:
            tensor = built.graph.tensor(dim=dim, stride=stride, data_type=data_type)
        else:
            tensor.set_output(True).set_data_type(data_type).set_dim(dim).set_stride(stride)
        tensor.set_ragged_offset(offsets[size])
        built.pack[tensor] = value
        return tensor

    q, k, v = (ragged(None, SIZE) for _ in range(3))
    padded = dict(use_padding_mask=True, seq_len_q=built.input(lengths), seq_len_kv=built.input(lengths))
    scale = 1 / math.sqrt(SIZE)
    o, statistics = built.graph.sdpa(q=q, k=k, v=v, generate_stats=True, attn_scale=scale, use_causal_mask=True, **padded)
    ragged(o, SIZE)
    ragged(statistics, 1, torch.float32, FLOAT)
    return built.milliseconds()


def backward(handle, extents):
    batch, count, key_count, rows, size, value_size, is_causal = extents
    built = Built(handle)
    q, k, v = heads(batch, rows, count, size), heads(batch, rows, key_count, size), heads(batch, rows, key_count, value_size)
    o, gradient = (heads(batch, rows, count, value_size) for _ in range(2))
    statistics = torch.full((batch, count, rows, 1), math.log(rows), device="cuda")
    named = dict(zip(("q", "k", "v", "o", "dO", "stats"), map(built.input, (q, k, v, o, gradient, statistics))))
    options = dict(attn_scale=1 / math.sqrt(size), use_causal_mask=is_causal, use_deterministic_algorithm=True)
    for tensor, value in zip(built.graph.sdpa_backward(**named, **options), (q, k, v)):
        built.output(tensor, torch.empty_like(value))
    return built.milliseconds()


def flexible(option):
    """FlexAttention under `torch.compile`."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    is_packed = option == "documents"
    batch, rows = (1, sum(DOCUMENTS)) if is_packed else (BATCH, ROWS)
    q, k, v = (heads(batch, rows, HEADS, SIZE) for _ in range(3))
    number = torch.repeat_interleave(torch.arange(len(DOCUMENTS), device="cuda"), torch.tensor(DOCUMENTS, device="cuda"))
    keep = (lambda b, h, r, c: (r >= c) & (number[r] == number[c])) if is_packed else (lambda b, h, r, c: r >= c)
    slopes = torch.exp2(-8.0 * torch.arange(1, HEADS + 1, device="cuda") / HEADS)
    modifiers = {
        "cap": lambda score, b, h, r, c: CAP * torch.tanh(score / CAP),
        "alibi": lambda score, b, h, r, c: score + slopes[h] * (c - r),
    }
    mask = create_block_mask(keep, None, None, rows, rows, device="cuda")
    compiled = torch.compile(flex_attention)
    return time(lambda: compiled(q, k, v, score_mod=modifiers.get(option), block_mask=mask, return_lse=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--without-flex", action="store_true")
    args = parser.parse_args()
    handle, times = cudnn.create_handle(), {}

    def measured(name, run):
        try:
            times[name] = run()
        except Exception as error:
            times[name] = str(error)[:200]
        print(name, times[name], flush=True)
        with open(args.out, "w") as file:
            json.dump(times, file, indent=1)

    for option in ("bare", "cap", "alibi"):
        measured(option, lambda: forward(handle, option))
    measured("documents", lambda: documents(handle))
    for name, extents in GRADIENTS.items():
        measured(f"deterministic gradients, {name}", lambda: backward(handle, extents))
    for option in () if args.without_flex else ("bare", "cap", "alibi", "documents"):
        measured(f"FlexAttention, {option}", lambda: flexible(option))


if __name__ == "__main__":
    main()
