#!/usr/bin/env python3
"""Random matmuls beside cuDNN and PyTorch: shapes, pitches, types and epilogues that nobody tuned for.

    scripts/matmul-sweep.py graphs DIR [--count 500] [--seed 1]          writes DIR/cases.json and a graph file a case
    fusewright bench -q DIR/sweep_*.json --json OURS.json                measures ours
    scripts/matmul-sweep.py peers DIR PEERS.json [--plans 4]             measures theirs, on the same machine right before or after
    scripts/matmul-sweep.py table DIR OURS.json PEERS.json               shows ratios: theirs over ours, so that more is better

`peers` needs PyTorch, Triton and the cuDNN frontend; a case's bar is the fastest of cuDNN's first plans and eager PyTorch (cuBLASLt, which fuses a
bias, and for FP8 `_scaled_mm`). Graphs are drawn from a seed: the same one gives the same graphs. Layers of models (B as weights lie, row by row of
N or of K), decoding steps of 1 to 64 rows, batches of small matrices; HALF, BFLOAT16, FP8 and FLOAT; rows with gaps; bare, with a bias, an
activation, a residual.
"""


import sweep

FEW_ROWS = [1, 2, 3, 4, 8, 16, 24, 32, 48, 64]
ROWS = [80, 128, 197, 256, 320, 384, 512, 577, 640, 768, 1000, 1024, 1280, 1536, 2048, 2560, 3000, 4096, 6144, 8192, 16384]
SIZES = [64, 96, 128, 192, 256, 320, 384, 512, 576, 640, 768, 896, 1024, 1152, 1280, 1536, 1792, 2048, 2304, 2560, 3072, 3584, 4096]
SIZES += [4608, 5120, 5632, 6144, 7168, 8192, 9216, 10240, 11008, 11264, 12288, 13824, 14336, 16384, 28672]
ODD_SIZES = [40, 72, 100, 136, 200, 264, 328, 500, 1000, 1048, 2008, 3000, 4088, 50257, 51200]
BATCHES = [2, 3, 4, 8, 12, 16, 32, 64, 96, 128]
SMALL = [16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512]
TYPES = ["HALF", "BFLOAT16", "FLOAT", "FP8_E4M3"]
EPILOGUES = ["", "", "", "bias", "bias", "bias_relu", "bias_gelu", "add", "bias_add"]
FLOPS = (2e7, 2e12)
MOST_ELEMENTS = 1 << 28


def draw(generator, number):
    """A case: extents, layouts, pitches, type and epilogue."""
    pick = generator.choice
    chance = lambda share: generator.random() < share
    size = lambda: pick(ODD_SIZES) if chance(0.1) else pick(SIZES)
    while True:
        kind = pick(["layer", "layer", "layer", "decode", "batch"])
        if kind == "batch":
            batch, m, n, k = pick(BATCHES), *(pick(SMALL) for _ in range(3))
        else:
            batch, m, n, k = 1, pick(FEW_ROWS if kind == "decode" else ROWS), size(), size()
        data_type = pick(["HALF"] * 4 + ["BFLOAT16"] * 6 + ["FP8_E4M3"] * 2 + ["FLOAT"])
        is_fp8 = data_type == "FP8_E4M3" and kind != "batch"
        data_type = data_type if is_fp8 or data_type != "FP8_E4M3" else "BFLOAT16"
        epilogue = "" if is_fp8 else pick(EPILOGUES)
        turned = dict(a=not is_fp8 and chance(0.1), b=is_fp8 or chance(0.6))
        gaps = {name: pick([8, 16, 64]) if not is_fp8 and chance(0.1) else 0 for name in "abc"}
        flops = 2 * batch * m * n * k
        largest = batch * max(m * k, k * n, m * n)
        if largest > MOST_ELEMENTS or not FLOPS[0] <= flops <= FLOPS[1] or is_fp8 and (n % 16 or k % 16):
            continue
        extents = dict(batch=batch, m=m, n=n, k=k)
        layouts = dict(turned=turned, gaps=gaps)
        return dict(case=f"sweep_{number:03}_{kind}", kind=kind, data_type=data_type, epilogue=epilogue, flops=flops, **extents, **layouts)


def output_type(case):
    return "BFLOAT16" if case["data_type"] == "FP8_E4M3" else case["data_type"]


def strides(rows, columns, is_turned, gap):
    """Of a matrix of a batch: rows with a gap behind each, or columns."""
    inner, outer = (rows, columns) if is_turned else (columns, rows)
    pitch = inner + gap
    return [outer * pitch, 1, pitch] if is_turned else [outer * pitch, pitch, 1]


def tensors_of(case):
    """Dims and strides of A, B, C, the bias and the residual."""
    batch, m, n, k, turned, gaps = (case[key] for key in ("batch", "m", "n", "k", "turned", "gaps"))
    c = strides(m, n, False, gaps["c"])
    return dict(
        A=([batch, m, k], strides(m, k, turned["a"], gaps["a"])),
        B=([batch, k, n], strides(k, n, turned["b"], gaps["b"])),
        C=([batch, m, n], c),
        bias=([1, 1, n], [n, n, 1]),
        residual=([batch, m, n], c),
    )


def steps_of(case):
    """The operations behind the product, in order: a mode, and the tensor that it reads beside."""
    modes = dict(bias=("ADD", "bias"), add=("ADD", "residual"), relu=("RELU_FWD", None), gelu=("GELU_APPROX_TANH_FWD", None))
    return [modes[name] for name in case["epilogue"].split("_") if name]


def fuses_bias(case):
    """Whether PyTorch has one call for the product and its bias."""
    return case["epilogue"].startswith("bias") and case["batch"] == 1


def graph(case):
    """The case as a graph file of the cuDNN frontend."""
    tensors, nodes, shapes = [], [], tensors_of(case)

    def tensor(name, shape, data_type, is_virtual=False):
        common = dict(is_virtual=is_virtual, is_pass_by_value=False, pass_by_value=None, reordering_type="NONE")
        dim, stride = shapes[shape]
        tensors.append(dict(uid=len(tensors) + 1, name=name, dim=dim, stride=stride, data_type=data_type, **common))
        return len(tensors)

    def result(is_last, name):
        return tensor("C" if is_last else f"{name}::OUT", "C", output_type(case) if is_last else "FLOAT", not is_last)

    steps = steps_of(case)
    inputs = {name: tensor(name, name, case["data_type"]) for name in "AB"}
    last = result(not steps, "matmul")
    nodes.append(dict(tag="MATMUL", name="matmul", inputs=inputs, outputs={"C": last}, compute_data_type="FLOAT", padding_value=0.0))
    unset = dict.fromkeys(["axis", "elu_alpha", "relu_lower_clip", "relu_lower_clip_slope", "relu_upper_clip", "softplus_beta", "swish_beta"])
    for number, (mode, beside) in enumerate(steps):
        read = {"IN_0": last} | ({"IN_1": tensor(beside, beside, case["data_type"])} if beside else {})
        last = result(number == len(steps) - 1, f"{mode}_{number}")
        common = dict(compute_data_type="FLOAT", mode=mode, **unset)
        nodes.append(dict(tag="POINTWISE", name=f"{mode}_{number}", inputs=read, outputs={"OUT_0": last}, **common))
    context = dict(io_data_type=case["data_type"], intermediate_data_type="FLOAT", compute_data_type="FLOAT", name=case["case"])
    return dict(json_version="2.0", context=context, nodes=nodes, tensors=tensors)


class Peers(sweep.Peers):
    """cuDNN and eager PyTorch on one case."""

    def __init__(self, plans, repetitions, alone=False):
        super().__init__(plans, repetitions, alone)
        self.torch.backends.cuda.matmul.allow_tf32 = True

    def operands(self, case):
        torch = self.torch

        def value(name):
            dim, stride = tensors_of(case)[name]
            dtype = self.dtype(output_type(case) if name == "C" else case["data_type"])
            memory = torch.randn(dim[0] * stride[0], device="cuda") * (0.1 if name == "B" else 1.0)
            return memory.to(dtype).as_strided(dim, stride)

        steps = [beside for _, beside in steps_of(case) if beside]
        return {name: value(name) for name in ["A", "B", "C", *steps]}

    def eager(self, case, operands, record):
        product, steps = self.product(case, operands), steps_of(case)
        if fuses_bias(case):
            steps = steps[1:]
        functions = dict(RELU_FWD=self.torch.relu, GELU_APPROX_TANH_FWD=lambda x: self.torch.nn.functional.gelu(x, approximate="tanh"))

        def run():
            result = product()
            for mode, beside in steps:
                result = functions[mode](result) if beside is None else result + operands[beside]
            return result

        record["torch_ms"] = self.time(run)

    def product(self, case, operands):
        torch, (a, b) = self.torch, (operands["A"], operands["B"])
        if case["batch"] == 1:
            a, b = a[0], b[0]
        if case["data_type"] == "FP8_E4M3":
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        if fuses_bias(case):
            bias = operands["bias"][0, 0]
            return lambda: torch.addmm(bias, a, b)
        return lambda: torch.matmul(a, b)

    def library(self, case, operands, record):
        built = sweep.Built(self, case["data_type"])
        graph, input = built.graph, built.input
        functions = dict(RELU_FWD=graph.relu, GELU_APPROX_TANH_FWD=graph.gelu_approx_tanh)
        result = graph.matmul(A=input(operands["A"]), B=input(operands["B"]))
        for mode, beside in steps_of(case):
            result = functions[mode](input=result) if beside is None else graph.add(a=result, b=input(operands[beside]))
        built.output(result, operands["C"], output_type(case))
        built.time(record)


def describe(case):
    layout = "".join("t" if case["turned"][name] else "n" for name in "ab")
    gaps = "+".join(str(case["gaps"][name]) for name in "abc")
    extents = f"{case['batch']}×{case['m']}×{case['n']}×{case['k']}"
    return f"{case['kind']} {case['data_type']} {extents} {layout} gaps {gaps} {case['epilogue']}"


SHOWN = sweep.by_value("kind", ["layer", "decode", "batch"]) | sweep.by_value("data_type", TYPES)
SHOWN |= {"bare": lambda case: not case["epilogue"], "gaps": lambda case: any(case["gaps"].values())}


if __name__ == "__main__":
    sweep.run(__doc__, draw, graph, Peers, SHOWN, describe, count=500)
