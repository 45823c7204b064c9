#!/usr/bin/env python3
"""Random attention beside cuDNN and PyTorch: shapes that nobody tuned for.

    scripts/attention-sweep.py graphs DIR [--count 100] [--seed 1]       writes DIR/cases.json and a graph file a case
    scripts/attention-sweep.py peers DIR OURS.json --plans 1             measures ours, where the loader finds what scripts/install-cudnn.sh installs
    scripts/attention-sweep.py peers DIR PEERS.json [--plans 4]          measures theirs, on the same machine right before or after
    scripts/attention-sweep.py table DIR OURS.json PEERS.json            shows ratios: theirs over ours, so that more is better

`peers` needs PyTorch, Triton and the cuDNN frontend; a case's bar is the fastest of cuDNN's first plans and PyTorch's
`scaled_dot_product_attention` (which is not asked for windows and lengths). Graphs are drawn from a seed: the same one gives the same
graphs. They are forward and backward passes and decoding steps: heads and groups of them, lengths, sizes of heads, no mask, a causal one, a
window, or a length for each sequence. Graph files serve `fusewright bench` too, which draws lengths of its own.
"""

import math

import sweep

HEADS = [4, 8, 12, 16, 20, 24, 32, 40, 48, 64]
GROUPS = [1, 1, 1, 2, 4, 8]
BATCHES = [1, 2, 3, 4, 8, 16, 32]
LENGTHS = [128, 197, 256, 384, 512, 577, 640, 777, 1024, 1280, 1500, 2048, 2560, 3072, 4096, 6144, 8192, 12288, 16384]
KEYS = [512, 1000, 1024, 2048, 4096, 8192, 16384, 32768]
HEAD_DIMS = [32, 40, 48, 64, 64, 64, 72, 80, 96, 112, 128, 128, 128, 128, 160, 192, 256]
MOST_ELEMENTS = 1 << 28
FLOPS = (5e8, 2e12)


def draw(generator, number):
    """A case: heads, lengths, sizes, the mask and the pass."""
    pick = generator.choice
    while True:
        kind = pick(["forward", "forward", "forward", "backward", "backward", "decode"])
        batch, groups, d = pick(BATCHES), pick(GROUPS), pick(HEAD_DIMS)
        heads = pick([count for count in HEADS if count % groups == 0])
        queries = 1 if kind == "decode" else pick(LENGTHS)
        keys = pick(KEYS) if kind == "decode" else queries if generator.random() < 0.9 else pick(LENGTHS)
        values = pick([64, 128]) if d == 192 and generator.random() < 0.5 else d
        masks = ["none", "none", "lengths"] if kind == "decode" else ["none", "causal", "causal", "causal", "window", "lengths"]
        mask = pick(masks)
        if mask in ("causal", "window") and keys != queries:
            continue
        window = pick([128, 512, 1024, 4096]) if mask == "window" else None
        if window and window >= keys:
            continue
        pairs = queries * window - window * window / 2 if window else queries * keys * (0.5 if mask == "causal" else 1)
        flops = 2 * batch * heads * pairs * (d + values) * (2.5 if kind == "backward" else 1)
        largest = batch * max(heads * queries * max(d, values), heads // groups * keys * max(d, values))
        least = FLOPS[0] / (50 if kind == "decode" else 1)
        if largest > MOST_ELEMENTS or not least <= flops <= FLOPS[1]:
            continue
        lengths = [generator.randint(keys // 4, keys) for _ in range(batch)] if mask == "lengths" else None
        extents = dict(batch=batch, heads=heads, key_heads=heads // groups, queries=queries, keys=keys, d=d, values=values)
        masked = dict(mask=mask, window=window, lengths=lengths)
        return dict(case=f"sweep_{number:03}_{kind}", kind=kind, data_type=pick(["HALF", "BFLOAT16"]), flops=flops, **extents, **masked)


def interleaved(dim):
    """Strides of `[batch, heads, rows, elements]` as they lie after a projection: the heads of a row side by side."""
    _, heads, rows, elements = dim
    return [heads * rows * elements, elements, heads * elements, 1]


def extents(case):
    """Extents of Q, K, V and O."""
    batch, heads, key_heads = case["batch"], case["heads"], case["key_heads"]
    queries, keys, d, values = case["queries"], case["keys"], case["d"], case["values"]
    return [batch, heads, queries, d], [batch, key_heads, keys, d], [batch, key_heads, keys, values], [batch, heads, queries, values]


def float_bits(value):
    """A number as graph files hold it."""
    import struct

    return struct.pack(">f", value).hex().upper()


def graph(case):
    """The case as a graph file of the cuDNN frontend."""
    tensors = []
    is_backward = case["kind"] == "backward"

    def tensor(name, dim, stride, data_type=case["data_type"], value=None):
        passed = None if value is None else dict(index=3, value=float_bits(value))
        common = dict(is_virtual=False, is_pass_by_value=value is not None, pass_by_value=passed, reordering_type="NONE")
        tensors.append(dict(uid=len(tensors) + 1, name=name, dim=dim, stride=stride, data_type=data_type, **common))
        return len(tensors)

    def turned(name, dim):
        stride = interleaved(dim)
        return tensor(name, [*dim[:2], dim[3], dim[2]], [*stride[:2], stride[3], stride[2]])

    q, k, v, o = extents(case)
    plain = lambda name, dim: tensor(name, dim, interleaved(dim))
    statistics = lambda: tensor("stats", [*q[:3], 1], [q[1] * q[2], q[2], 1, 1], "FLOAT")
    scale = 1 / math.sqrt(case["d"])
    inputs = {"Q": plain("Q", q), "K": turned("K", k), "V": turned("V", v) if is_backward else plain("V", v)}
    if case["lengths"]:
        lengths = lambda name: tensor(name, [case["batch"], 1, 1, 1], [1, 1, 1, 1], "INT32")
        inputs |= {"SEQ_LEN_Q": lengths("seq_len_q"), "SEQ_LEN_KV": lengths("seq_len_kv")}
    band = dict(left_bound=case["window"], right_bound=0 if case["mask"] in ("causal", "window") else None, diagonal_alignment="TOP_LEFT")
    if is_backward:
        inputs |= {"O": plain("O", o), "dO": plain("dO", o), "Stats": statistics()}
        outputs = {"dQ": plain("dQ", q), "dK": plain("dK", k), "dV": plain("dV", v)}
        named = dict(tag="SDPA_BWD", name="sdpa_backward")
    else:
        outputs = {"O": plain("O", o)} | ({} if case["kind"] == "decode" else {"Stats": statistics()})
        named = dict(tag="SDPA", name="sdpa", generate_stats=case["kind"] != "decode")
    inputs["Attn_scale"] = tensor("scale", [1, 1, 1, 1], [1, 1, 1, 1], "FLOAT", scale)
    said = dict(alibi_mask=False, padding_mask=bool(case["lengths"]), dropout_probability=None, attn_scale_value=float_bits(scale))
    node = dict(inputs=inputs, outputs=outputs, compute_data_type="FLOAT", **named, **band, **said)
    context = dict(io_data_type=case["data_type"], intermediate_data_type="FLOAT", compute_data_type="FLOAT", name=case["case"])
    return dict(json_version="2.0", context=context, nodes=[node], tensors=tensors)


class Peers(sweep.Peers):
    """cuDNN and PyTorch on one case."""

    def operands(self, case):
        dtype = self.dtype(case["data_type"])
        return [self.torch.randn((x[0], x[2], x[1], x[3]), device="cuda").to(dtype).transpose(1, 2) for x in extents(case)]

    def eager(self, case, operands, record):
        if case["mask"] in ("none", "causal"):
            record["torch_ms"] = self.time(self.function(case, *operands))

    def function(self, case, q, k, v, o):
        torch = self.torch
        attention = torch.nn.functional.scaled_dot_product_attention
        forward = lambda: attention(q, k, v, is_causal=case["mask"] == "causal", enable_gqa=q.shape[1] != k.shape[1])
        if case["kind"] != "backward":
            return forward
        inputs = [x.requires_grad_() for x in (q, k, v)]
        result = forward()
        return lambda: torch.autograd.grad(result, inputs, o, retain_graph=True)

    def library(self, case, operands, record):
        torch, (q, k, v, o) = self.torch, (x.detach() for x in operands)
        built = sweep.Built(self, case["data_type"])
        graph, input = built.graph, built.input
        options = dict(attn_scale=1 / math.sqrt(case["d"]))
        if case["mask"] == "causal":
            options["use_causal_mask"] = True
        if case["window"]:
            options |= dict(diagonal_band_left_bound=case["window"], diagonal_band_right_bound=0)
        if case["lengths"]:
            keys = torch.tensor(case["lengths"], device="cuda", dtype=torch.int32).view(-1, 1, 1, 1)
            queries = torch.clamp(keys, max=case["queries"])
            options |= dict(use_padding_mask=True, seq_len_q=input(queries), seq_len_kv=input(keys))
        statistics = torch.full((*q.shape[:3], 1), math.log(case["keys"]), device="cuda")
        if case["kind"] == "backward":
            known = dict(o=input(o), dO=input(torch.randn_like(o)), stats=input(statistics))
            gradients = graph.sdpa_backward(q=input(q), k=input(k), v=input(v), **known, **options)
            for tensor, value in zip(gradients, (q, k, v)):
                built.output(tensor, torch.empty_like(value), case["data_type"])
        else:
            has_statistics = case["kind"] != "decode"
            result, kept = graph.sdpa(q=input(q), k=input(k), v=input(v), generate_stats=has_statistics, **options)
            built.output(result, torch.empty_like(o), case["data_type"])
            if has_statistics:
                built.output(kept, statistics, "FLOAT")
        built.time(record)


def describe(case):
    heads = f"{case['batch']}×{case['heads']}/{case['key_heads']}"
    lengths = f"{case['queries']}×{case['keys']}"
    return f"{case['kind']} {case['data_type']} {heads}×{lengths} d {case['d']}/{case['values']} {case['mask']} {case['window'] or ''}"


SHOWN = sweep.by_value("kind", ["forward", "backward", "decode"]) | sweep.by_value("mask", ["none", "causal", "window", "lengths"])


if __name__ == "__main__":
    sweep.run(__doc__, draw, graph, Peers, SHOWN, describe, count=100)
