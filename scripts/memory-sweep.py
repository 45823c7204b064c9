#!/usr/bin/env python3
"""Random pointwise graphs, reductions and norms beside cuDNN and PyTorch's Inductor: what memory bounds, in shapes that nobody tuned for.

    scripts/memory-sweep.py graphs DIR [--count 150] [--seed 1]       writes DIR/cases.json and a graph file a case; needs the package fusewright
    scripts/memory-sweep.py peers DIR OURS.json --plans 1 --alone     measures ours, where the loader finds what scripts/install-cudnn.sh installs
    scripts/memory-sweep.py peers DIR PEERS.json [--plans 2]          measures theirs, on the same machine right before or after
    scripts/memory-sweep.py table DIR OURS.json PEERS.json            shows ratios: theirs over ours, so that more is better

`peers` needs PyTorch, Triton and the cuDNN frontend; a case's bar is the fastest of cuDNN's first plans, eager PyTorch and code of `torch.compile`, the
latter from a CUDA graph where it is short. Each kind builds its graph by methods that `fusewright.pygraph` and `cudnn.pygraph` both have, and says the same
in PyTorch. Graphs are drawn from a seed: the same one gives the same graphs.
"""

import json
import math

import sweep

TYPES = ["BFLOAT16", "BFLOAT16", "HALF", "FLOAT"]
BYTES = {"BFLOAT16": 2, "HALF": 2, "FLOAT": 4}
# bytes of a tensor that is read and written, at least and at most
MOVED = (4 << 20, 1 << 30)
ROWS = [64, 197, 500, 1024, 2048, 3000, 4096, 6000, 8192, 12544, 16384, 25088, 32768, 50000, 65536, 131072, 262144]
COLUMNS = [64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1152, 1280, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 8192, 11008, 14336, 16384]
IMAGES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
CHANNELS = [16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 640, 1024, 2048]
PIXELS = [7, 8, 14, 16, 28, 32, 56, 64, 112, 128]
PHASES = ["TRAINING", "TRAINING", "INFERENCE", "backward", "backward"]
ACTIVATIONS = ["relu", "gelu_approx_tanh", "swish", "tanh", "sigmoid"]
MODES = ["ADD", "ADD", "MAX", "AMAX", "AVG"]


def shape_of_rows(pick):
    return [pick(ROWS), pick(COLUMNS), 1, 1]


def shape_of_image(pick):
    pixels = pick(PIXELS)
    return [pick(IMAGES), pick(CHANNELS), pixels, pixels]


def shape_of_either(pick):
    return pick([shape_of_rows, shape_of_image])(pick)


def channels_last(dim):
    _, c, h, w = dim
    return [c * h * w, 1, c * w, c]


def along(dim, *axes):
    """Extents of which only those of some axes are left."""
    return [extent if axis in axes else 1 for axis, extent in enumerate(dim)]


class Case:
    """A case's graph while it is built: of `fusewright.pygraph` or of cuDNN's, whose enumerations `library` has."""

    def __init__(self, library, graph, case):
        self.library, self.graph, self.case = library, graph, case
        self.dim, self.type = case["dim"], case["data_type"]
        self.inputs, self.outputs = {}, {}

    def input(self, name, dim=None, data_type=None, stride=None):
        dim = dim or self.dim
        known = dict(dim=dim, stride=stride or channels_last(dim), data_type=data_type or self.type)
        tensor = self.graph.tensor(**{**known, "data_type": self.typed(known["data_type"])}, name=name)
        self.inputs[name] = (tensor, known)
        return tensor

    def scalar(self, name, value):
        one = dict(dim=[1] * 4, stride=[1] * 4, data_type=self.typed("FLOAT"))
        tensor = self.graph.tensor(**one, is_pass_by_value=True, name=name)
        self.inputs[name] = (tensor, value)
        return tensor

    def output(self, name, tensor, dim=None, data_type=None, stride=None):
        dim = dim or self.dim
        known = dict(dim=dim, stride=stride or channels_last(dim), data_type=data_type or self.type)
        tensor.set_output(True).set_name(name).set_data_type(self.typed(known["data_type"])).set_dim(dim).set_stride(known["stride"])
        self.outputs[name] = (tensor, known)

    def typed(self, name):
        return getattr(self.library.data_type, name)


def activated(torch, name, x):
    functions = dict(relu=torch.relu, swish=torch.nn.functional.silu, tanh=torch.tanh, sigmoid=torch.sigmoid)
    return torch.nn.functional.gelu(x, approximate="tanh") if name == "gelu_approx_tanh" else functions[name](x)


class BiasActivationAdd:
    """act(x + bias) + r."""

    shape = staticmethod(shape_of_either)
    choices = dict(activation=ACTIVATIONS)

    def build(b):
        biased = b.graph.bias(input=b.input("x"), bias=b.input("bias", along(b.dim, 1)))
        b.output("y", b.graph.add(a=getattr(b.graph, b.case["activation"])(input=biased), b=b.input("r")))

    def torch(torch, case, t):
        return activated(torch, case["activation"], t["x"] + t["bias"]) + t["r"]


class ScaleShift:
    """relu(x · scale + shift) by channels, of FLOAT factors."""

    shape = staticmethod(shape_of_image)

    def build(b):
        scaled = b.graph.scale(input=b.input("x"), scale=b.input("scale", along(b.dim, 1), "FLOAT"))
        b.output("y", b.graph.relu(input=b.graph.bias(input=scaled, bias=b.input("shift", along(b.dim, 1), "FLOAT"))))

    def torch(torch, case, t):
        return torch.relu(t["x"] * t["scale"] + t["shift"]).to(t["x"].dtype)


class Gate:
    """act(a) · b."""

    shape = staticmethod(shape_of_rows)
    choices = dict(activation=ACTIVATIONS)

    def build(b):
        b.output("y", b.graph.mul(a=getattr(b.graph, b.case["activation"])(input=b.input("a")), b=b.input("b")))

    def torch(torch, case, t):
        return activated(torch, case["activation"], t["a"]) * t["b"]


class RowScale:
    """x · row · column."""

    shape = staticmethod(shape_of_rows)

    def build(b):
        scaled = b.graph.mul(a=b.input("x"), b=b.input("row", along(b.dim, 0), "FLOAT"))
        b.output("y", b.graph.mul(a=scaled, b=b.input("column", along(b.dim, 1), "FLOAT")))

    def torch(torch, case, t):
        return (t["x"] * t["row"] * t["column"]).to(t["x"].dtype)


class Transposed:
    """A sum, one of whose operands lies row-major: a copy between layouts."""

    shape = staticmethod(shape_of_image)

    def build(b):
        _, c, h, w = b.dim
        x = b.input("x", stride=[c * h * w, h * w, w, 1])
        b.output("y", b.graph.add(a=x, b=b.input("r")))

    def torch(torch, case, t):
        return (t["x"] + t["r"]).contiguous(memory_format=torch.channels_last)


class Quantized:
    """FP8 of x · scale, and the largest magnitude of the product."""

    shape = staticmethod(shape_of_rows)

    def build(b):
        scaled = b.graph.mul(a=b.input("x"), b=b.input("scale", [1] * 4, "FLOAT"))
        b.output("amax", b.graph.reduction(input=scaled, mode=b.library.reduction_mode.AMAX), [1] * 4, "FLOAT")
        b.output("y", b.graph.identity(input=scaled), data_type="FP8_E4M3")

    def torch(torch, case, t):
        scaled = t["x"] * t["scale"]
        return scaled.clamp(-448, 448).to(torch.float8_e4m3fn), scaled.abs().amax()


class Reduced:
    """A reduction to some axes, of the input or of a product of two."""

    shape = staticmethod(shape_of_either)
    choices = dict(kept=["rows", "columns", "columns", "pixels averaged", "nothing"], mode=MODES, is_product=[False, False, True])
    axes = {"rows": (0,), "columns": (1,), "pixels averaged": (0, 1), "nothing": ()}

    def build(b):
        value = b.graph.mul(a=b.input("x"), b=b.input("r")) if b.case["is_product"] else b.input("x")
        reduced = b.graph.reduction(input=value, mode=getattr(b.library.reduction_mode, b.case["mode"]))
        b.output("y", reduced, along(b.dim, *Reduced.axes[b.case["kept"]]), "FLOAT")

    def torch(torch, case, t):
        value = t["x"].float() * t["r"] if case["is_product"] else t["x"].float()
        gone = [axis for axis in range(4) if axis not in Reduced.axes[case["kept"]]]
        mode = case["mode"]
        if mode in ("ADD", "AVG"):
            return value.sum(gone, keepdim=True) if mode == "ADD" else value.mean(gone, keepdim=True)
        return (value.abs() if mode == "AMAX" else value).amax(gone, keepdim=True)


class LayerNorm:
    """Rows of `[rows, c, 1, 1]` normalised; of an inference also behind a sum that is stored."""

    shape = staticmethod(shape_of_rows)
    choices = dict(phase=PHASES, is_root_mean_square=[False, True], has_residual=[False, True])

    def build(b):
        rows, columns, is_rms = along(b.dim, 0), along(b.dim, 1), b.case["is_root_mean_square"]
        statistic = lambda name: b.input(name, rows, "FLOAT")
        if b.case["phase"] == "backward":
            known = dict(grad=b.input("dy"), input=b.input("x"), scale=b.input("scale", columns))
            if is_rms:
                dx, ds, db = b.graph.rmsnorm_backward(**known, inv_variance=statistic("inverse"), has_dbias=False)
            else:
                dx, ds, db = b.graph.layernorm_backward(**known, mean=statistic("mean"), inv_variance=statistic("inverse"))
                b.output("dbias", db, columns)
            b.output("dx", dx)
            b.output("dscale", ds, columns)
            return
        x = b.input("x")
        if b.case["phase"] == "INFERENCE" and b.case["has_residual"]:
            x = b.graph.add(a=x, b=b.input("r"))
            b.output("sum", x)
        phase = getattr(b.library.norm_forward_phase, b.case["phase"])
        known = dict(norm_forward_phase=phase, input=x, scale=b.input("scale", columns), epsilon=b.scalar("epsilon", 1e-5))
        if is_rms:
            y, inverse = b.graph.rmsnorm(**known)
        else:
            y, mean, inverse = b.graph.layernorm(**known, bias=b.input("bias", columns))
        b.output("y", y)
        if b.case["phase"] == "TRAINING":
            b.output("inverse", inverse, rows, "FLOAT")
            if not is_rms:
                b.output("mean", mean, rows, "FLOAT")

    def torch(torch, case, t):
        rows, c = case["dim"][:2]
        x, scale = t["x"].view(rows, c), t["scale"].flatten()
        is_rms = case["is_root_mean_square"]
        if case["phase"] == "backward":
            dy, inverse = t["dy"].view(rows, c), t["inverse"].view(rows, 1)
            if not is_rms:
                saved = (t["mean"].view(rows, 1), inverse, scale, scale)
                return torch.ops.aten.native_layer_norm_backward(dy, x, [c], *saved, [True] * 3)
            normal, scaled = x.float() * inverse, dy.float() * scale
            dx = (scaled - normal * (scaled * normal).mean(1, keepdim=True)) * inverse
            return dx.to(x.dtype), (dy.float() * normal).sum(0).to(x.dtype)
        summed = x + t["r"].view(rows, c) if "r" in t else x
        if is_rms:
            real = summed.float()
            inverse = torch.rsqrt(real.square().mean(1, keepdim=True) + 1e-5)
            y, kept = (real * inverse * scale).to(x.dtype), [inverse]
        else:
            y, *kept = torch.ops.aten.native_layer_norm(summed, [c], scale, t["bias"].flatten(), 1e-5)
        return (y, *(kept if case["phase"] == "TRAINING" else []), *([summed] if "r" in t else []))


class BatchNorm:
    """Channels of images normalised; forward with ReLU behind it or not."""

    shape = staticmethod(shape_of_image)
    choices = dict(phase=PHASES, is_activated=[False, True])

    def build(b):
        channels = along(b.dim, 1)
        known = lambda *names: {name: b.input(name, channels, "FLOAT") for name in names}
        if b.case["phase"] == "backward":
            gradients = b.graph.batchnorm_backward(grad=b.input("grad"), input=b.input("x"), **known("scale", "mean", "inv_variance"))
            for name, tensor in zip(("dx", "dscale", "dbias"), gradients):
                b.output(name, tensor, *([] if name == "dx" else [channels, "FLOAT"]))
            return
        if b.case["phase"] == "INFERENCE":
            y = b.graph.batchnorm_inference(input=b.input("x"), **known("mean", "inv_variance", "scale", "bias"))
        else:
            numbers = dict(epsilon=b.scalar("epsilon", 1e-5), momentum=b.scalar("momentum", 0.1))
            y, *kept = b.graph.batchnorm(input=b.input("x"), **known("scale", "bias", "in_running_mean", "in_running_var"), **numbers)
            for name, tensor in zip(("mean", "inverse", "running_mean", "running_var"), kept):
                b.output(name, tensor, channels, "FLOAT")
        b.output("y", b.graph.relu(input=y) if b.case["is_activated"] else y)

    def torch(torch, case, t):
        flat = {name: value.flatten() for name, value in t.items() if name not in ("x", "grad")}
        if case["phase"] == "backward":
            saved = (flat["scale"], None, None, flat["mean"], flat["inv_variance"])
            return torch.ops.aten.native_batch_norm_backward(t["grad"], t["x"], *saved, True, 1e-5, [True] * 3)
        if case["phase"] == "INFERENCE":
            y = ((t["x"] - t["mean"]) * t["inv_variance"] * t["scale"] + t["bias"]).to(t["x"].dtype)
        else:
            running = (flat["in_running_mean"].clone(), flat["in_running_var"].abs())
            y = torch.nn.functional.batch_norm(t["x"], *running, flat["scale"], flat["bias"], True, 0.1, 1e-5)
        return torch.relu(y) if case["is_activated"] else y


class InstanceNorm:
    """Channels of each image normalised."""

    shape = staticmethod(shape_of_image)

    def build(b):
        known = {name: b.input(name, along(b.dim, 1), "FLOAT") for name in ("scale", "bias")}
        phase = b.library.norm_forward_phase.TRAINING
        y, *kept = b.graph.instancenorm(norm_forward_phase=phase, input=b.input("x"), **known, epsilon=b.scalar("epsilon", 1e-5))
        b.output("y", y)
        for name, tensor in zip(("mean", "inverse"), kept):
            b.output(name, tensor, along(b.dim, 0, 1), "FLOAT")

    def torch(torch, case, t):
        return torch.nn.functional.instance_norm(t["x"], None, None, t["scale"].flatten(), t["bias"].flatten())


# A kind has no instances: the shapes and choices that are drawn, how a `Case` becomes its graph, and what that is in PyTorch.
KINDS = {
    **{"bias": BiasActivationAdd, "scale": ScaleShift, "gate": Gate, "row": RowScale, "transposed": Transposed, "quantized": Quantized},
    **{"reduced": Reduced, "layer": LayerNorm, "batch": BatchNorm, "instance": InstanceNorm},
}
WEIGHTS = dict(bias=2, scale=1, gate=1, row=1, transposed=2, quantized=1, reduced=6, layer=8, batch=5, instance=1)


def draw(generator, number):
    """A case: its kind, extents, type and what the kind chooses."""
    pick = generator.choice
    while True:
        name = pick([kind for kind, weight in WEIGHTS.items() for _ in range(weight)])
        kind = KINDS[name]
        case = dict(case=f"sweep_{number:03}_{name}", kind=name, dim=kind.shape(pick), data_type=pick(TYPES), flops=0)
        case |= {choice: pick(values) for choice, values in getattr(kind, "choices", {}).items()}
        moved = 2 * math.prod(case["dim"]) * BYTES[case["data_type"]]
        is_whole = case.get("kept") == "pixels averaged" and case["dim"][2] == 1
        if MOVED[0] <= moved <= MOVED[1] and not is_whole and not (name == "quantized" and case["data_type"] == "FLOAT"):
            return case


def built(library, case, **options):
    """The case as a library's graph."""
    real = library.data_type.FLOAT
    types = dict(io_data_type=getattr(library.data_type, case["data_type"]), intermediate_data_type=real, compute_data_type=real)
    case = Case(library, library.pygraph(**types, **options), case)
    KINDS[case.case["kind"]].build(case)
    return case


def graph(case):
    import fusewright

    return json.loads(built(fusewright, case).graph.to_json())


class Peers(sweep.Peers):
    """cuDNN, eager PyTorch and Inductor on one case."""

    def operands(self, case):
        built_case = built(self.cudnn, case, handle=self.handle)
        values = {name: self.drawn(known) for name, (_, known) in built_case.inputs.items()}
        return built_case, values

    def drawn(self, known):
        if isinstance(known, float):
            return self.torch.full((1, 1, 1, 1), known)
        return self.strided(known).copy_(self.torch.rand(known["dim"], device="cuda") + 0.1)

    def strided(self, known):
        return self.torch.empty_strided(known["dim"], known["stride"], device="cuda", dtype=self.dtype(known["data_type"]))

    def eager(self, case, operands, record):
        torch, values = self.torch, {name: value for name, value in operands[1].items() if value.is_cuda}
        function = KINDS[case["kind"]].torch
        run = lambda given: function(torch, case, given)
        record["eager_ms"] = record["torch_ms"] = self.time(lambda: run(values))
        torch._dynamo.reset()
        compiled = torch.compile(run, dynamic=False)
        record["inductor_ms"] = self.time(lambda: compiled(values))
        if record["inductor_ms"] < 0.2:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                compiled(values)
            record["inductor_ms"] = min(record["inductor_ms"], self.time(captured.replay))
        record["torch_ms"] = min(record["torch_ms"], record["inductor_ms"])

    def library(self, case, operands, record):
        built_case, values = operands
        pack = {tensor: values[name] for name, (tensor, _) in built_case.inputs.items()}
        pack |= {tensor: self.strided(known) for tensor, known in built_case.outputs.values()}
        sweep.time_plans(self.cudnn, self.handle, built_case.graph, pack, self.plans, self.time, record)


def describe(case):
    known = ("case", "kind", "dim", "data_type", "flops")
    return f"{case['kind']} {case['data_type']} {case['dim']} {' '.join(str(value) for key, value in case.items() if key not in known)}"


if __name__ == "__main__":
    sweep.run(__doc__, draw, graph, Peers, sweep.by_value("kind", list(KINDS)), describe, count=150)
