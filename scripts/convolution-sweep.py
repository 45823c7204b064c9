#!/usr/bin/env python3
"""Random convolutions beside cuDNN and PyTorch: shapes that nobody tuned for.

    scripts/convolution-sweep.py graphs DIR [--count 300] [--seed 1]     writes DIR/cases.json and a graph file a case
    fusewright bench -q DIR/sweep_*.json --json OURS.json                measures ours
    scripts/convolution-sweep.py peers DIR PEERS.json [--plans 4]        measures theirs, on the same machine right before or after
    scripts/convolution-sweep.py table DIR OURS.json PEERS.json          shows ratios: theirs over ours, so that more is better

`peers` needs PyTorch, Triton and the cuDNN frontend; a case's bar is the fastest of cuDNN's first plans and eager PyTorch. Graphs are drawn
from a seed: the same one gives the same graphs. They are forward convolutions (bare, with bias and ReLU, or with a residual), data
gradients and filter gradients, in NHWC.
"""

import math

import sweep

CHANNELS = [8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160, 192, 224, 240, 256, 288, 320, 384, 480, 512, 640, 768, 1024, 2048]
ODD_CHANNELS = [3, 4, 12, 20, 33, 36]
PIXELS = [7, 8, 9, 12, 14, 16, 19, 20, 24, 28, 32, 35, 40, 48, 56, 64, 75, 80, 96, 112]
IMAGES = [1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256]
MOST_ELEMENTS = 1 << 26
FLOPS = (1e8, 3e11)


def draw(generator, number):
    """A case: extents, parameters, direction, type and epilogue."""
    pick = generator.choice
    while True:
        kind = pick(["fprop", "fprop", "dgrad", "wgrad"])
        channels = lambda: pick(ODD_CHANNELS) if generator.random() < 0.07 else pick(CHANNELS)
        c, k = channels(), channels()
        groups = 1
        if generator.random() < 0.1:
            c = k = groups = pick(CHANNELS)
        elif generator.random() < 0.07:
            groups = pick([2, 4, 8, 32])
            c, k = c * groups, k * groups
        taps = pick([1, 1, 3, 3, 3, 3, 5, 7])
        filter = [taps, taps] if generator.random() < 0.9 else [taps, pick([1, 3, 5])]
        stride = pick([1, 1, 1, 2])
        dilation = pick([1] * 9 + [2]) if taps > 1 else 1
        padding = [dilation * (extent - 1) // 2 if generator.random() < 0.9 else 0 for extent in filter]
        height = pick(PIXELS)
        width = height if generator.random() < 0.8 else pick(PIXELS)
        x = [pick(IMAGES), c, height, width]
        y = [(x[2 + i] + 2 * padding[i] - dilation * (filter[i] - 1) - 1) // stride + 1 for i in range(2)]
        if min(y) < 1:
            continue
        y = [x[0], k] + y
        w = [k, c // groups] + filter
        flops = 2 * math.prod(y) * math.prod(w[1:])
        if max(math.prod(x), math.prod(y)) > MOST_ELEMENTS or not FLOPS[0] <= flops <= FLOPS[1]:
            continue
        data_type = pick(["HALF"] * 4 + ["BFLOAT16"] * 4 + ["FLOAT"])
        epilogue = pick(["", "bias_relu", "bias_add_relu"]) if kind == "fprop" else ""
        case = dict(x=x, w=w, y=y, padding=padding, stride=stride, dilation=dilation, groups=groups)
        return dict(case=f"sweep_{number:03}_{kind}", kind=kind, data_type=data_type, epilogue=epilogue, flops=flops, **case)


def strides(dim):
    n, c, *spatial = dim
    inner = [c * math.prod(spatial[i + 1 :]) for i in range(len(spatial))]
    return [c * math.prod(spatial), 1] + inner


def graph(case):
    """The case as a graph file of the cuDNN frontend."""
    tensors, nodes = [], []

    def tensor(name, dim, virtual=False):
        data_type = "FLOAT" if virtual else case["data_type"]
        common = dict(is_pass_by_value=False, pass_by_value=None, reordering_type="NONE")
        record = dict(uid=len(tensors) + 1, name=name, dim=dim, stride=strides(dim), data_type=data_type, is_virtual=virtual)
        tensors.append({**record, **common})
        return len(tensors)

    def node(tag, name, inputs, outputs, **attributes):
        nodes.append(dict(tag=tag, name=name, inputs=inputs, outputs=outputs, compute_data_type="FLOAT", **attributes))

    def pointwise(mode, name, inputs, output):
        unset = dict.fromkeys(["axis", "elu_alpha", "relu_lower_clip", "relu_lower_clip_slope", "relu_upper_clip", "softplus_beta", "swish_beta"])
        node("POINTWISE", name, {f"IN_{i}": at for i, at in enumerate(inputs)}, {"OUT_0": output}, mode=mode, **unset)

    parameters = dict(
        pre_padding=case["padding"],
        post_padding=case["padding"],
        stride=[case["stride"]] * 2,
        dilation=[case["dilation"]] * 2,
        math_mode="CROSS_CORRELATION",
    )
    x, w, y = case["x"], case["w"], case["y"]
    if case["kind"] == "fprop":
        inputs = {"X": tensor("X", x), "W": tensor("W", w)}
        result = tensor("Y" if not case["epilogue"] else "conv::Y", y, virtual=bool(case["epilogue"]))
        node("CONV_FPROP", "conv", inputs, {"Y": result}, **parameters)
        if case["epilogue"]:
            biased = tensor("bias::OUT", y, virtual=True)
            pointwise("ADD", "bias", [result, tensor("bias", [1, y[1], 1, 1])], biased)
            if case["epilogue"] == "bias_add_relu":
                added = tensor("residual::OUT", y, virtual=True)
                pointwise("ADD", "residual", [biased, tensor("R", y)], added)
                biased = added
            pointwise("RELU_FWD", "relu", [biased], tensor("Y", y))
    elif case["kind"] == "dgrad":
        inputs = {"DY": tensor("DY", y), "W": tensor("W", w)}
        node("CONV_DGRAD", "dgrad", inputs, {"DX": tensor("DX", x)}, **parameters)
    else:
        inputs = {"X": tensor("X", x), "DY": tensor("DY", y)}
        node("CONV_WGRAD", "wgrad", inputs, {"DW": tensor("DW", w)}, **parameters)
    context = dict(io_data_type=case["data_type"], intermediate_data_type="FLOAT", compute_data_type="FLOAT", name=case["case"])
    return dict(json_version="2.0", context=context, nodes=nodes, tensors=tensors)


class Peers(sweep.Peers):
    """cuDNN and eager PyTorch on one case."""

    def operands(self, case):
        torch, dtype = self.torch, self.dtype(case["data_type"])

        def random_tensor(dim, scale=1.0):
            values = (torch.randn(dim, device="cuda") * scale).to(dtype)
            return torch.empty_strided(dim, strides(dim), device="cuda", dtype=dtype).copy_(values)

        tensors = {name: random_tensor(case[name], 0.1 if name == "w" else 1.0) for name in "xwy"}
        bias = random_tensor([1, case["y"][1], 1, 1]) if case["epilogue"] else None
        residual = random_tensor(case["y"]) if case["epilogue"] == "bias_add_relu" else None
        return tensors, bias, residual

    def eager(self, case, operands, record):
        record["torch_ms"] = self.time(self.function(case, *operands))

    def function(self, case, tensors, bias, residual):
        torch, (x, w, y) = self.torch, [tensors[name] for name in "xwy"]
        padding, stride, dilation, groups = case["padding"], [case["stride"]] * 2, [case["dilation"]] * 2, case["groups"]
        if case["kind"] == "fprop":
            forward = lambda: torch.nn.functional.conv2d(x, w, None if bias is None else bias.flatten(), stride, padding, dilation, groups)
            if residual is not None:
                return lambda: torch.relu(forward() + residual)
            return forward if bias is None else lambda: torch.relu(forward())
        wanted = [case["kind"] == "dgrad", case["kind"] == "wgrad", False]
        backward = torch.ops.aten.convolution_backward
        return lambda: backward(y, x, w, None, stride, padding, dilation, False, [0, 0], groups, wanted)

    def library(self, case, operands, record):
        tensors, bias, residual = operands
        built = sweep.Built(self, case["data_type"])
        graph, input = built.graph, built.input
        parameters = dict(padding=case["padding"], stride=[case["stride"]] * 2, dilation=[case["dilation"]] * 2)
        if case["kind"] == "fprop":
            result, name = graph.conv_fprop(image=input(tensors["x"]), weight=input(tensors["w"]), **parameters), "y"
            if bias is not None:
                result = graph.bias(input=result, bias=input(bias))
                result = result if residual is None else graph.add(a=result, b=input(residual))
                result = graph.relu(input=result)
        elif case["kind"] == "dgrad":
            result, name = graph.conv_dgrad(loss=input(tensors["y"]), filter=input(tensors["w"]), **parameters), "x"
        else:
            result, name = graph.conv_wgrad(image=input(tensors["x"]), loss=input(tensors["y"]), **parameters), "w"
        built.output(result, self.torch.empty_like(tensors[name]), case["data_type"])
        built.time(record)


def describe(case):
    extents = f"x {case['x']} w {case['w']} y {case['y']} stride {case['stride']} dilation {case['dilation']}"
    return f"{case['kind']} {case['data_type']} {extents} {case['epilogue']}"


SHOWN = {"depthwise": lambda case: case["groups"] == case["x"][1] > 1} | sweep.by_value("kind", ["fprop", "dgrad", "wgrad"])


if __name__ == "__main__":
    sweep.run(__doc__, draw, graph, Peers, SHOWN, describe, count=300)
