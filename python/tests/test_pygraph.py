"""The builder with the names of ``cudnn.pygraph``."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest

core = pytest.importorskip("fusewright._core")

import fusewright  # noqa: E402
from fusewright import MalformedGraph, Tensor, data_type, heur_mode, pygraph, reduction_mode  # noqa: E402
from fusewright._pygraph.enumerations import norm_forward_phase, scalar_type, tensor_reordering  # noqa: E402

UNARY = [
    "abs",
    "ceil",
    "cos",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "gelu_approx_tanh",
    "identity",
    "log",
    "neg",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sin",
    "softplus",
    "sqrt",
    "swish",
    "tan",
    "tanh",
]
BINARY = [
    "add",
    "add_square",
    "bias",
    "cmp_eq",
    "cmp_ge",
    "cmp_gt",
    "cmp_le",
    "cmp_lt",
    "cmp_neq",
    "div",
    "max",
    "min",
    "mod",
    "mul",
    "pow",
    "scale",
    "sub",
]
ACTIVATIONS = ["elu", "gelu", "gelu_approx_tanh", "relu", "sigmoid", "softplus", "swish", "tanh"]
BACKWARD = [f"{name}_backward" for name in ACTIVATIONS]
MODES = {
    "bias": "ADD",
    "scale": "MUL",
    **{name: f"{name.upper()}_FWD" for name in ACTIVATIONS},
    **{name: name.upper().replace("BACKWARD", "BWD") for name in BACKWARD},
}


def new_graph(**keywords: Any) -> pygraph:
    defaults = {"io_data_type": "HALF", "intermediate_data_type": "FLOAT", "compute_data_type": "FLOAT"}
    return pygraph(**{**defaults, **keywords})


def image(graph: pygraph, name: str, *dim: int, kind: Any = None) -> Tensor:
    """A tensor with channels innermost."""
    stride = [1] * len(dim)
    step = dim[1]
    for axis in range(len(dim) - 1, 1, -1):
        stride[axis], step = step, step * dim[axis]
    stride[0] = step
    return graph.tensor(dim=dim, stride=stride, data_type=kind, name=name)


def names(infos: list[Any]) -> list[str]:
    return [info.name for info in infos]


def finish(graph: pygraph, *outputs: Tensor | None) -> Any:
    for output in outputs:
        if output is not None:
            output.set_output(True)
    final = core.Graph.from_json(graph.to_json())
    for info in (*final.inputs, *final.outputs):
        assert graph._tensors[info.uid].get_name() == info.name
    return final


def only_node(graph: pygraph) -> Any:
    (node,) = json.loads(graph.to_json())["nodes"]
    return node


# ---- Every operation -------------------------------------------------------------------------------------------------


def test_the_chip_of_verdicts_is_that_of_sm_version() -> None:
    def graph(**keywords: Any) -> pygraph:
        made = pygraph(io_data_type="HALF", intermediate_data_type="FLOAT", compute_data_type="FLOAT", **keywords)
        x, w = (made.tensor([1, 64, 64]) for _ in range(2))
        made.matmul(x, w).set_output(True)
        return made

    assert "wgmma" in graph().source() == graph(sm_version=90).source()
    older = graph(sm_version=80)
    assert "wgmma" not in older.source() == graph().source("sm_80")
    assert "sm_80" in older.explain() and "sm_90" in older.explain("sm_90")
    assert older.check().engine == graph().check("sm_80").engine != graph().check().engine
    for wrong, error in [(8, "ten times"), ("90", "sm_version")]:
        with pytest.raises((TypeError, fusewright.InputError), match=error):
            graph(sm_version=wrong).check()
    with pytest.raises(TypeError, match=r"device_property: .*a session says"):
        pygraph(device_property=object())  # type: ignore[arg-type]
    # in the order of cuDNN's
    assert pygraph("g", None, None, None, None, 4, 80, None, None, True, True)._arch == "sm_80"


def test_constructor_states_the_context() -> None:
    graph = pygraph(
        "g",
        data_type.HALF,
        data_type.FLOAT,
        compute_data_type="float32",
        handle=object(),
        sm_count=4,
        is_dynamic_shape_enabled=True,
    )
    graph.relu(graph.tensor([2, 4])).set_output(True)
    assert json.loads(graph.to_json())["context"] == {
        "name": "g",
        "io_data_type": "HALF",
        "intermediate_data_type": "FLOAT",
        "compute_data_type": "FLOAT",
        "sm_count": 4,
        "is_dynamic_shape_enabled": True,
        "is_override_shape_enabled": False,
    }


@pytest.mark.parametrize("op", [*UNARY, *BINARY, *BACKWARD])
def test_pointwise(op: str) -> None:
    graph = new_graph()
    count = 1 if op in UNARY else 2
    operands = [graph.tensor([2, 8, 16], name=name) for name in "xy"[:count]]
    output = getattr(graph, op)(*operands)
    assert output.get_name() == f"{op}.0::OUT_0"
    assert output.get_is_virtual()
    final = finish(graph, output)
    assert names(final.inputs) == list("xy"[:count])
    assert names(final.outputs) == [f"{op}.0::OUT_0"]
    assert final.outputs[0].dim == [2, 8, 16]
    node = only_node(graph)
    assert (node["tag"], node["mode"]) == ("POINTWISE", MODES.get(op, op.upper()))
    assert list(node["inputs"]) == ["IN_0", "IN_1"][:count]


@pytest.mark.parametrize("op", ["logical_and", "logical_or", "logical_not"])
def test_logical(op: str) -> None:
    graph = new_graph(compute_data_type="BOOLEAN", intermediate_data_type="BOOLEAN", io_data_type="BOOLEAN")
    x, y = graph.tensor([2, 8, 16], name="x"), graph.tensor([2, 8, 16], name="y")
    output = graph.logical_not(x) if op == "logical_not" else getattr(graph, op)(a=x, b=y)
    assert len(finish(graph, output).inputs) == (1 if op == "logical_not" else 2)


def test_attributes_of_activations() -> None:
    graph = new_graph()
    x = graph.tensor([2, 8], name="x")
    graph.relu(input=x, negative_slope=0.125, lower_clip=-1.0, upper_clip=6)
    graph.leaky_relu(x, 0.5)
    graph.leaky_relu_backward(x, x, negative_slope=0.5)
    graph.swish(x, swish_beta=1.0)
    graph.elu(x, elu_alpha=2)
    graph.softplus(x, softplus_beta=4)
    relu, leaky, leaky_backward, swish, elu, softplus = json.loads(graph.to_json())["nodes"]
    assert relu["relu_lower_clip_slope"] == "3E000000"
    assert (relu["relu_lower_clip"], relu["relu_upper_clip"]) == ("BF800000", "40C00000")
    assert (leaky["mode"], leaky["relu_lower_clip_slope"]) == ("RELU_FWD", "3F000000")
    assert (leaky_backward["mode"], leaky_backward["relu_lower_clip_slope"]) == ("RELU_BWD", "3F000000")
    assert (swish["swish_beta"], elu["elu_alpha"], softplus["softplus_beta"]) == ("3F800000", "40000000", "40800000")


def test_gen_index_and_select() -> None:
    graph = new_graph(intermediate_data_type="INT32", compute_data_type="INT32", io_data_type="INT32")
    x = graph.tensor([2, 8, 16], name="x")
    index = graph.gen_index(x, axis=2)
    mask = graph.cmp_gt(input=index, comparison=3)
    final = finish(graph, graph.binary_select(input0=x, input1=index, mask=mask))
    assert names(final.inputs) == ["x"]
    assert json.loads(graph.to_json())["nodes"][0]["axis"] == 2


def test_numbers_become_constants() -> None:
    graph = new_graph()
    x = graph.tensor([2, 8], name="x")
    final = finish(graph, graph.mul(graph.add(x, 0.125), 2))
    assert names(final.inputs) == ["x"]
    constants = [t for t in json.loads(graph.to_json())["tensors"] if t["is_pass_by_value"]]
    assert [t["pass_by_value"] for t in constants] == [
        {"index": 3, "value": "3E000000"},
        {"index": 3, "value": "40000000"},
    ]
    assert all(t["data_type"] == "FLOAT" for t in constants)


def test_matmul() -> None:
    graph = new_graph()
    a, b = graph.tensor([1, 8, 16], name="a"), graph.tensor([1, 16, 32], name="b")
    c = graph.matmul(A=a, B=b, padding=1.5, compute_data_type=data_type.FLOAT, name="mm")
    assert c.get_name() == "mm::C"
    final = finish(graph, c)
    assert (names(final.inputs), names(final.outputs)) == (["a", "b"], ["mm::C"])
    assert final.outputs[0].dim == [1, 8, 32]
    assert (only_node(graph)["padding_value"], only_node(graph)["compute_data_type"]) == (1.5, "FLOAT")


def test_convolutions() -> None:
    graph = new_graph()
    x, w = image(graph, "x", 2, 8, 10, 10), image(graph, "w", 16, 8, 3, 3)
    y = graph.conv_fprop(x, w, padding=[1, 1], stride=[2, 2], dilation=[1, 1])
    final = finish(graph, y)
    assert final.outputs[0].dim == [2, 16, 5, 5]
    node = only_node(graph)
    assert (node["pre_padding"], node["post_padding"], node["math_mode"]) == ([1, 1], [1, 1], "CROSS_CORRELATION")

    graph = new_graph()
    dy, w = image(graph, "dy", 2, 16, 10, 10), image(graph, "w", 16, 8, 3, 3)
    dx = graph.conv_dgrad(loss=dy, filter=w, pre_padding=[1, 1], post_padding=[1, 1])
    assert names(finish(graph, dx.set_dim([2, 8, 10, 10])).inputs) == ["dy", "w"]
    assert only_node(graph)["stride"] == [1, 1]

    graph = new_graph()
    x, dy = image(graph, "x", 2, 8, 10, 10), image(graph, "dy", 2, 16, 8, 8)
    dw = graph.conv_wgrad(image=x, loss=dy, convolution_mode="CONVOLUTION")
    assert finish(graph, dw.set_dim([16, 8, 3, 3])).outputs[0].dim == [16, 8, 3, 3]


def test_reduction_and_statistics() -> None:
    graph = new_graph()
    x = graph.tensor([1, 8, 16], name="x")
    y = graph.reduction(x, mode=reduction_mode.MAX).set_dim([1, 8, 1]).set_stride([8, 1, 1]).set_data_type("FLOAT")
    assert finish(graph, y).outputs[0].dim == [1, 8, 1]

    graph = new_graph()
    total, squares = graph.genstats(image(graph, "x", 2, 8, 4, 4))
    final = finish(graph, total.set_data_type("FLOAT"), squares.set_data_type("FLOAT"))
    assert [info.dim for info in final.outputs] == [[1, 8, 1, 1]] * 2


def test_resample() -> None:
    graph = new_graph()
    x = image(graph, "x", 2, 8, 8, 8)
    y, index = graph.resample_fwd(x, "MAXPOOL", [2, 2], [2, 2], generate_index=True)
    assert y is not None and index is not None
    final = finish(graph, y, index.set_data_type("INT8"))
    assert [info.dim for info in final.outputs] == [[2, 8, 4, 4]] * 2
    assert only_node(graph)["padding_mode"] == "NEG_INF_PAD"
    average, nothing = graph.resample_fwd(x, "AVGPOOL_INCLUDE_PADDING", [2, 2])
    assert average is not None and nothing is None


TRAINING = norm_forward_phase.TRAINING
Norm = Callable[[pygraph, Tensor, Tensor, Tensor], list[Any]]
NORMS: dict[str, tuple[list[int], Norm, list[list[int]]]] = {
    "layernorm": (
        [1, 8, 1, 1],
        lambda g, x, s, b: g.layernorm(TRAINING, x, scale=s, bias=b, epsilon=1e-5),
        [[4, 8, 1, 1], [4, 1, 1, 1], [4, 1, 1, 1]],
    ),
    "adalayernorm": (
        [4, 1, 8],
        lambda g, x, s, b: g.adalayernorm(TRAINING, x, scale=s, bias=b, epsilon=1e-5),
        [[4, 6, 8], [4, 6, 1], [4, 6, 1]],
    ),
    "rmsnorm": (
        [1, 8, 1, 1],
        lambda g, x, s, b: g.rmsnorm("TRAINING", x, scale=s, bias=b, epsilon=1e-5),
        [[4, 8, 1, 1], [4, 1, 1, 1]],
    ),
}


@pytest.mark.parametrize("op", NORMS)
def test_norms_over_channels(op: str) -> None:
    dim, make, expected = NORMS[op]
    graph = new_graph()
    x = graph.tensor([4, 6, 8] if len(dim) == 3 else [4, 8, 1, 1], name="x")
    scale, bias = (graph.tensor(dim, name=name, data_type="FLOAT") for name in ("scale", "bias"))
    made = make(graph, x, scale, bias)
    for statistic in made[1:]:
        statistic.set_data_type("FLOAT")
    final = finish(graph, *made)
    assert names(final.inputs) == ["x", "scale", "bias"]
    assert [info.dim for info in final.outputs] == expected


def test_norms_in_inference_have_no_statistics() -> None:
    graph = new_graph()
    x, scale = graph.tensor([4, 8, 1, 1], name="x"), graph.tensor([1, 8, 1, 1], name="scale")
    epsilon = graph.tensor([1, 1, 1, 1], name="epsilon", data_type="FLOAT", is_pass_by_value=True)
    y, inverse = graph.rmsnorm("INFERENCE", x, scale, epsilon=epsilon)
    assert inverse is None
    final = finish(graph, y)
    assert [(info.name, info.is_pass_by_value) for info in final.inputs] == [
        ("x", False),
        ("scale", False),
        ("epsilon", True),
    ]


@pytest.mark.parametrize("op", ["layernorm", "adalayernorm", "rmsnorm"])
def test_gradients_of_norms_over_channels(op: str) -> None:
    graph = new_graph()
    shapes = [[4, 6, 8], [4, 1, 8], [4, 6, 1]] if op == "adalayernorm" else [[4, 8, 1, 1], [1, 8, 1, 1], [4, 1, 1, 1]]
    dy, x = graph.tensor(shapes[0], name="dy"), graph.tensor(shapes[0], name="x")
    scale = graph.tensor(shapes[1], name="scale", data_type="FLOAT")
    mean, inverse = (graph.tensor(shapes[2], name=name, data_type="FLOAT") for name in ("mean", "inverse"))
    statistics = {"inv_variance": inverse} if op == "rmsnorm" else {"mean": mean, "inv_variance": inverse}
    made = getattr(graph, f"{op}_backward")(grad=dy, input=x, scale=scale, **statistics)
    for gradient in made[1:]:
        if gradient is not None:
            gradient.set_data_type("FLOAT")
    assert (made[2:] == [None]) == (op == "rmsnorm")
    final = finish(graph, *made)
    assert len(final.inputs) == 3 + len(statistics)
    assert len(final.outputs) == (2 if op == "rmsnorm" else 3)


def channel(graph: pygraph, name: str) -> Tensor:
    return image(graph, name, 1, 8, 1, 1, kind="FLOAT")


def test_batchnorm() -> None:
    graph = new_graph()
    x = image(graph, "x", 4, 8, 6, 6)
    made = graph.batchnorm(
        input=x,
        scale=channel(graph, "scale"),
        bias=channel(graph, "bias"),
        in_running_mean=channel(graph, "running_mean"),
        in_running_var=channel(graph, "running_var"),
        epsilon=1e-5,
        momentum=0.1,
    )
    for tensor in made[1:]:
        assert tensor is not None
        tensor.set_data_type("FLOAT")
    final = finish(graph, *made)
    assert names(final.inputs) == ["x", "scale", "bias", "running_mean", "running_var"]
    assert [info.dim for info in final.outputs] == [[4, 8, 6, 6], *[[1, 8, 1, 1]] * 4]

    made = graph.batchnorm(x, channel(graph, "s"), channel(graph, "b"), None, None, 1e-5, None)
    assert made[3:] == [None, None]
    with pytest.raises(TypeError, match="batchnorm: in_running_mean, in_running_var, momentum"):
        graph.batchnorm(x, channel(graph, "s2"), channel(graph, "b2"), momentum=0.1)


def test_batchnorm_with_peers() -> None:
    graph = new_graph()
    peers = [image(graph, name, 2, 32, 1, 1, kind="FLOAT") for name in ("peer_0", "peer_1")]
    x = image(graph, "x", 4, 8, 6, 6)
    made = graph.batchnorm(x, channel(graph, "scale"), channel(graph, "bias"), epsilon=1e-5, peer_stats=peers)
    for statistic in made[1:3]:
        assert statistic is not None
        statistic.set_data_type("FLOAT")
    peers[0].set_uid(50)
    assert set(names(finish(graph, *made).inputs)) == {"x", "peer_0", "peer_1", "scale", "bias"}


def test_batchnorm_inference_and_gradient() -> None:
    graph = new_graph()
    x = image(graph, "x", 4, 8, 6, 6)
    parameters: dict[str, Any] = {name: channel(graph, name) for name in ("mean", "inv_variance", "scale", "bias")}
    final = finish(graph, graph.batchnorm_inference(input=x, **parameters))
    assert names(final.inputs) == ["x", *parameters]

    for op, count in (("batchnorm_backward", 3), ("dbn_weight", 5)):
        graph = new_graph()
        dy, x = image(graph, "dy", 4, 8, 6, 6), image(graph, "x", 4, 8, 6, 6)
        statistics = {name: channel(graph, name) for name in ("scale", "mean", "inv_variance")}
        made = getattr(graph, op)(grad=dy, input=x, **statistics)
        for gradient in made:
            if gradient.get_name().endswith(("DSCALE", "DBIAS", "EQ_BIAS", "EQ_SCALE_DY", "EQ_SCALE_X")):
                gradient.set_data_type("FLOAT")
        assert len(finish(graph, *made).outputs) == count


def test_bn_finalize() -> None:
    graph = new_graph(io_data_type="FLOAT")
    total, squares, scale, bias = (channel(graph, name) for name in ("sum", "sq_sum", "scale", "bias"))
    made = graph.bn_finalize(
        total, squares, scale, bias, epsilon=1e-5, accum_count=graph.tensor_scalar(128, data_type="INT64")
    )
    assert made[4:] == [None, None]
    final = finish(graph, *made)
    assert len(final.outputs) == 4


def test_instancenorm() -> None:
    graph = new_graph()
    x = image(graph, "x", 4, 8, 6, 6)
    made = graph.instancenorm(TRAINING, x, channel(graph, "scale"), channel(graph, "bias"), 1e-5)
    for statistic in made[1:]:
        assert statistic is not None
        statistic.set_data_type("FLOAT")
    assert [info.dim for info in finish(graph, *made).outputs] == [[4, 8, 6, 6], *[[4, 8, 1, 1]] * 2]

    graph = new_graph()
    dy, x = image(graph, "dy", 4, 8, 6, 6), image(graph, "x", 4, 8, 6, 6)
    mean, inverse = (image(graph, name, 4, 8, 1, 1, kind="FLOAT") for name in ("mean", "inverse"))
    gradients = graph.instancenorm_backward(dy, x, channel(graph, "scale"), mean, inverse)
    for gradient in gradients[1:]:
        gradient.set_data_type("FLOAT")
    assert len(finish(graph, *gradients).outputs) == 3


def test_groupnorm() -> None:
    graph = new_graph()
    x = image(graph, "x", 4, 8, 6, 6)
    made = graph.groupnorm(TRAINING, x, 2, channel(graph, "scale"), channel(graph, "bias"), 1e-5)
    for statistic in made[1:]:
        assert statistic is not None
        statistic.set_data_type("FLOAT")
    assert [info.dim for info in finish(graph, *made).outputs] == [[4, 8, 6, 6], *[[4, 2, 1, 1]] * 2]

    graph = new_graph()
    dy, x = image(graph, "dy", 4, 8, 6, 6), image(graph, "x", 4, 8, 6, 6)
    mean, inverse = (image(graph, name, 4, 2, 1, 1, kind="FLOAT") for name in ("mean", "inverse"))
    gradients = graph.groupnorm_backward(dy, x, 2, channel(graph, "scale"), mean, inverse)
    for gradient in gradients[1:]:
        assert gradient is not None
        gradient.set_data_type("FLOAT")
    assert len(finish(graph, *gradients).outputs) == 3

    graph = new_graph()
    dy, x = image(graph, "dy", 4, 8, 6, 6), image(graph, "x", 4, 8, 6, 6)
    mean, inverse = (image(graph, name, 4, 2, 1, 1, kind="FLOAT") for name in ("mean", "inverse"))
    gradient, *others = graph.groupnorm_backward(dy, x, 2, None, mean, inverse)
    assert others == [None, None] and len(finish(graph, gradient).outputs) == 1

    graph = new_graph()
    alone, *statistics = graph.groupnorm("INFERENCE", image(graph, "x", 4, 8, 6, 6), 3)
    assert statistics == [None, None]
    with pytest.raises(MalformedGraph, match="GROUP_NORM"):
        finish(graph, alone)


def attention_inputs(graph: pygraph, *labels: str) -> list[Tensor]:
    return [graph.tensor([2, 4, 128, 64], name=label) for label in labels]


def test_sdpa() -> None:
    graph = new_graph()
    q, k, v = attention_inputs(graph, "q", "k", "v")
    lengths = [graph.tensor([2, 1, 1, 1], name=name, data_type="INT32") for name in ("len_q", "len_kv")]
    o, stats = graph.sdpa(
        q=q,
        k=k,
        v=v,
        attn_scale=0.125,
        generate_stats=True,
        use_causal_mask_bottom_right=True,
        sliding_window_length=32,
        use_padding_mask=True,
        seq_len_q=lengths[0],
        seq_len_kv=lengths[1],
        name="attn",
    )
    assert o is not None and stats is not None
    final = finish(graph, o, stats)
    assert names(final.inputs) == ["q", "k", "v", "len_q", "len_kv"]
    assert [info.dim for info in final.outputs] == [[2, 4, 128, 64], [2, 4, 128, 1]]
    node = only_node(graph)
    assert (node["tag"], node["attn_scale_value"]) == ("SDPA", "3E000000")
    assert (node["left_bound"], node["right_bound"], node["diagonal_alignment"]) == (32, 0, "BOTTOM_RIGHT")


def test_sdpa_with_dropout_and_without_stats() -> None:
    graph = new_graph()
    q, k, v = attention_inputs(graph, "q", "k", "v")
    seed, offset = (graph.tensor([1, 1, 1, 1], name=name, data_type="INT64") for name in ("seed", "offset"))
    scale = graph.tensor([1, 1, 1, 1], name="scale", data_type="FLOAT", is_pass_by_value=True)
    o, stats = graph.sdpa(q, k, v, is_inference=True, attn_scale=scale, dropout=(0.5, seed, offset))
    assert stats is None
    assert set(names(finish(graph, o).inputs)) == {"q", "k", "v", "seed", "offset", "scale"}
    assert only_node(graph)["dropout_probability"] == "3F000000"


def test_sdpa_backward() -> None:
    graph = new_graph()
    q, k, v, o, dO = attention_inputs(graph, "q", "k", "v", "o", "dO")
    stats = graph.tensor([2, 4, 128, 1], name="stats", data_type="FLOAT")
    gradients = graph.sdpa_backward(q, k, v, o, dO, stats, attn_scale=0.125, use_causal_mask=True)
    final = finish(graph, *gradients)
    assert names(final.inputs) == ["q", "k", "v", "o", "dO", "stats"]
    assert [info.dim for info in final.outputs] == [[2, 4, 128, 64]] * 3
    assert only_node(graph)["right_bound"] == 0


def fp8_inputs(graph: pygraph, *labels: str) -> list[Tensor]:
    return [graph.tensor([2, 4, 128, 64], name=label, data_type="FP8_E4M3") for label in labels]


FORWARD_FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
BACKWARD_FACTORS = (
    *(f"descale_{name}" for name in ("q", "k", "v", "o", "dO", "s", "dP")),
    *(f"scale_{name}" for name in ("s", "dQ", "dK", "dV", "dP")),
)


def factors(graph: pygraph, *names: str) -> dict[str, Any]:
    return {name: graph.tensor([1, 1, 1, 1], name=name, data_type="FLOAT") for name in names}


def test_sdpa_fp8() -> None:
    graph = new_graph(intermediate_data_type="FLOAT")
    q, k, v = fp8_inputs(graph, "q", "k", "v")
    options: dict[str, Any] = {"generate_stats": True, "use_causal_mask": True, "sliding_window": 32}
    o, stats, amax_s, amax_o = graph.sdpa_fp8(q, k, v, **factors(graph, *FORWARD_FACTORS), attn_scale=0.125, **options)
    assert o is not None and stats is not None and amax_s is not None and amax_o is not None
    o.set_data_type("FP8_E4M3")
    final = finish(graph, o, stats, amax_s, amax_o)
    assert names(final.inputs)[:3] == ["q", "k", "v"] and len(final.inputs) == 9
    assert [info.dim for info in final.outputs] == [[2, 4, 128, 64], [2, 4, 128, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    node = only_node(graph)
    assert (node["tag"], node["mma_core_mode"], node["left_bound"]) == ("SDPA_FP8_FWD", "FP8_E4M3", 32)
    assert graph.check("sm_90").supported

    graph = new_graph(intermediate_data_type="FLOAT")
    q, k, v = fp8_inputs(graph, "q", "k", "v")
    o, stats, *_ = graph.sdpa_fp8(q, k, v, **factors(graph, *FORWARD_FACTORS), is_inference=True)
    assert stats is None and o is not None
    with pytest.raises(TypeError, match="sdpa_fp8: descale_q: found float; required: a Tensor"):
        graph.sdpa_fp8(q, k, v, **{**dict.fromkeys(FORWARD_FACTORS, q), "descale_q": 1.0})  # type: ignore[arg-type]


def test_sdpa_fp8_backward() -> None:
    graph = new_graph(intermediate_data_type="FLOAT")
    q, k, v, o, dO = fp8_inputs(graph, "q", "k", "v", "o", "dO")
    stats = graph.tensor([2, 4, 128, 1], name="stats", data_type="FLOAT")
    scales = factors(graph, *BACKWARD_FACTORS)
    results = graph.sdpa_fp8_backward(q, k, v, o, dO, stats, **scales, attn_scale=0.125, use_causal_mask=True)
    for gradient in results[:3]:
        gradient.set_data_type("FP8_E4M3")
    final = finish(graph, *results)
    assert len(final.inputs) == 18
    assert [info.dim for info in final.outputs] == [[2, 4, 128, 64]] * 3 + [[1, 1, 1, 1]] * 4
    assert only_node(graph)["tag"] == "SDPA_FP8_BWD"
    assert graph.check("sm_90").supported


def test_movement() -> None:
    graph = new_graph(intermediate_data_type="HALF")
    x = graph.tensor([2, 8, 16], name="x")
    cut = graph.slice(input=x, slices=[slice(None), slice(2, 6), slice(0, 16, 2)])
    assert finish(graph, cut).outputs[0].dim == [2, 4, 8]

    graph = new_graph(intermediate_data_type="HALF")
    y = graph.reshape(graph.tensor([2, 8, 16], name="x")).set_dim([2, 128]).set_stride([128, 1])
    assert finish(graph, y).outputs[0].dim == [2, 128]

    graph = new_graph(intermediate_data_type="HALF")
    turned = graph.transpose(graph.tensor([2, 8, 16], name="x"), permutation=[0, 2, 1])
    assert finish(graph, turned).outputs[0].dim == [2, 16, 8]

    graph = new_graph(intermediate_data_type="HALF")
    parts = [graph.tensor([2, 8, 16], name=name) for name in "xyz"]
    assert finish(graph, graph.concatenate(inputs=parts, axis=1)).outputs[0].dim == [2, 24, 16]
    assert list(only_node(graph)["inputs"]) == ["0", "1", "2"]


def test_block_scales() -> None:
    graph = new_graph()
    y, scale = graph.block_scale_quantize(graph.tensor([1, 64, 64], name="x"), block_size=32, axis=2)
    final = finish(graph, y.set_data_type("FP8_E4M3"), scale.set_data_type("FP8_E8M0"))
    assert [info.dim for info in final.outputs] == [[1, 64, 64], [1, 64, 2]]

    graph = new_graph()
    x = graph.tensor([1, 64, 64], name="x", data_type="FP8_E4M3")
    descale = graph.tensor([1, 64, 2], name="descale", data_type="FP8_E8M0")
    descale.set_reordering_type(tensor_reordering.F8_128x4)
    y = graph.block_scale_dequantize(x, descale, block_size=[1, 32])
    assert names(finish(graph, y).inputs) == ["x", "descale"]


# ---- Tensors ---------------------------------------------------------------------------------------------------------


def test_setters_chain_and_getters_tell() -> None:
    graph = new_graph()
    x = graph.tensor([2, 8]).set_name("x").set_uid(7).set_dim([4, 8]).set_stride([8, 1]).set_data_type("BFLOAT16")
    assert (x.get_name(), x.get_uid(), x.get_dim(), x.get_stride()) == ("x", 7, [4, 8], [8, 1])
    assert x.get_data_type() is data_type.BFLOAT16
    y = graph.relu(x).set_output(True)
    assert (y.get_dim(), y.get_data_type()) == ([], None)
    graph.validate()
    assert (y.get_dim(), y.get_stride(), y.get_data_type()) == ([4, 8], [8, 1], data_type.HALF)
    x.set_dim([2, 8])
    assert y.get_dim() == []


def test_virtual_tensors_are_known_after_validation() -> None:
    graph = new_graph()
    x = graph.tensor([2, 8])
    inner = graph.relu(x)
    graph.exp(inner).set_output(True)
    graph.validate()
    assert (inner.get_dim(), inner.get_data_type()) == ([2, 8], data_type.FLOAT)


def test_a_given_uid_moves_the_holder() -> None:
    graph = new_graph()
    x, y = graph.tensor([2, 8], name="x"), graph.tensor([2, 8], name="y")
    assert (x.get_uid(), y.get_uid()) == (1, 2)
    y.set_uid(1)
    assert y.get_uid() == 1 and x.get_uid() not in (1, 0)
    with pytest.raises(MalformedGraph, match="tensor 'z': uid 1 is that of tensor 'y'"):
        graph.tensor([2, 8], name="z", uid=1)
    final = finish(graph, graph.add(x, y))
    assert sorted(names(final.inputs)) == ["x", "y"]


def test_ragged_tensors_name_their_offsets() -> None:
    graph = new_graph()
    offset = graph.tensor([3, 1, 1, 1], data_type="INT64", name="offset")
    q, k, v = attention_inputs(graph, "q", "k", "v")
    q.set_ragged_offset(offset).set_ragged_offset_multiplier(4)
    o, _ = graph.sdpa(q, k, v)
    assert o is not None
    o.set_output(True)
    described = {tensor["name"]: tensor for tensor in json.loads(graph.to_json())["tensors"]}
    assert described["q"]["ragged_offset_uid"] == offset.get_uid() == described["offset"]["uid"]
    assert described["q"]["ragged_offset_multiplier"] == 4


def test_tensor_like() -> None:
    numpy = pytest.importorskip("numpy")
    graph = new_graph()
    array = numpy.zeros((1, 8, 16), numpy.float16).transpose(0, 2, 1)
    x = graph.tensor_like(array)
    assert (x.get_dim(), x.get_stride(), x.get_data_type()) == ([1, 16, 8], [128, 1, 16], data_type.HALF)
    assert not x.get_is_pass_by_value()
    assert graph.tensor_like(x).get_stride() == [128, 1, 16]
    assert graph.tensor_like(numpy.ones((1, 1), numpy.float32)).get_is_pass_by_value()


def test_tensor_like_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    graph = new_graph()
    x = graph.tensor_like(torch.zeros(1, 8, 16, dtype=torch.bfloat16).transpose(1, 2))
    assert (x.get_dim(), x.get_stride(), x.get_data_type()) == ([1, 16, 8], [128, 1, 16], data_type.BFLOAT16)
    assert graph.tensor([1], data_type=torch.float8_e4m3fn).get_data_type() is data_type.FP8_E4M3


@pytest.mark.parametrize(
    "given, expected",
    [("float32", "FLOAT"), ("HALF", "HALF"), (data_type.INT8, "INT8"), (data_type.NOT_SET, None), (None, None)],
)
def test_spellings_of_types(given: Any, expected: str | None) -> None:
    found = new_graph().tensor([1], data_type=given).get_data_type()
    assert (found and found.name) == expected


# ---- Life cycle ------------------------------------------------------------------------------------------------------


def gelu(x: Any) -> Any:
    numpy = pytest.importorskip("numpy")
    return 0.5 * x * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2)))


def test_the_program_of_the_readme() -> None:
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(1)
    a, b, bias = (random.random(dim, numpy.float32) - 0.5 for dim in ((1, 8, 16), (1, 16, 32), (1, 1, 32)))
    y = numpy.full((1, 8, 32), numpy.nan, numpy.float32)

    graph = new_graph(io_data_type="FLOAT", session=fusewright.Session("cpu"))
    A, B, BIAS = (graph.tensor_like(array) for array in (a, b, bias))
    Y = graph.gelu(graph.bias(graph.matmul(A, B), BIAS)).set_output(True)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([heur_mode.A, heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    assert graph.get_workspace_size() == 0
    graph.execute({A: a, B: b, BIAS: bias, Y: y}, workspace=None, handle=None)
    numpy.testing.assert_allclose(y, gelu(a.astype(float) @ b + bias), rtol=0, atol=1e-6)

    by_uid = numpy.zeros_like(y)
    graph.execute({A.get_uid(): a, B.get_name(): b, BIAS: bias, Y.get_uid(): by_uid})
    numpy.testing.assert_array_equal(by_uid, y)


def test_tensors_of_pytorch_on_the_cpu() -> None:
    torch = pytest.importorskip("torch")
    graph = new_graph(io_data_type="BFLOAT16", session=fusewright.Session("cpu"))
    x = torch.linspace(-2, 2, 64, dtype=torch.bfloat16).reshape(4, 16)
    X = graph.tensor_like(x)
    Y = graph.relu(X).set_output(True)
    y = torch.empty_like(x)
    graph.build()
    graph.execute({X: x, Y: y})
    assert torch.equal(y, torch.relu(x))


def test_scalars_of_an_execution() -> None:
    numpy = pytest.importorskip("numpy")
    graph = new_graph(io_data_type="FLOAT", session=fusewright.Session("cpu"))
    x = numpy.ones((2, 8), numpy.float32)
    X = graph.tensor_like(x)
    factor = graph.tensor_scalar(3.0, scalar_type.RUNTIME_PARAM, name="factor")
    Y = graph.mul(X, factor).set_output(True)
    y = numpy.zeros_like(x)
    graph.execute({X: x, Y: y})
    assert (y == 3).all()
    graph.execute({X: x, Y: y, factor: numpy.full((1,), 5, numpy.float32)})
    assert (y == 5).all()


class OnGpu:
    """What ``execute`` asks of a session and plan of a GPU."""

    device = "cuda:0"
    workspace_bytes = 64

    def __init__(self, graph: pygraph) -> None:
        final = graph.finalize()
        self.inputs, self.outputs = final.inputs, final.outputs
        self.launched: list[Any] = []

    def launch(self, *arguments: Any) -> None:
        self.launched.append(arguments)


class Memory:
    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False)}


def test_launches_take_addresses_in_order() -> None:
    graph = new_graph()
    y, x = graph.tensor([2, 8], name="y"), graph.tensor([2, 8], name="x")
    factor = graph.tensor([1, 1], name="factor", data_type="FLOAT", is_pass_by_value=True)
    z = graph.mul(graph.add(x, y), factor).set_output(True)
    gpu: Any = OnGpu(graph)
    graph._session = graph._plan = gpu
    tensors = {x: 0x200, y: Memory(0x100), z: Memory(0x300), factor: 2.5}
    graph.execute(tensors, Memory(0x400), stream=7)
    assert gpu.launched == [([0x100, 0x200, 0x300], 0x400, 7, [2.5])]
    with pytest.raises(fusewright.ExecutionError, match="no workspace; required: 64 bytes"):
        graph.execute(tensors)
    with pytest.raises(fusewright.ExecutionError, match=r"input 'x' .*found object; required: an address"):
        graph.execute({**tensors, x: object()}, Memory(0x400))


def test_json_and_verdict() -> None:
    graph = new_graph(name="mm")
    a, b = graph.tensor([1, 128, 64], name="a"), graph.tensor([1, 64, 128], name="b")
    graph.matmul(a, b).set_output(True)
    (read,) = fusewright.loads(graph.serialize())
    assert read.key == graph.finalize().key == core.Graph.from_json(graph.to_json()).key
    assert graph.check("sm_90")
    assert graph.source("sm_90").strip() and graph.explain("sm_90").strip()


def test_names_are_made_unique() -> None:
    graph = new_graph()
    x = graph.tensor([2, 8])
    made = [graph.relu(x), graph.relu(x), graph.relu(x, name="act"), graph.relu(x, name="act")]
    assert [tensor.get_name() for tensor in made] == [
        "relu.0::OUT_0",
        "relu.1::OUT_0",
        "act::OUT_0",
        "act.1::OUT_0",
    ]


# ---- Errors ----------------------------------------------------------------------------------------------------------

WRONG: list[tuple[type[Exception], str, Callable[[Any, Any], Any]]] = [
    (MalformedGraph, "matmul: A: tensor 'z' is of another graph", lambda g, x: g.matmul(new_z(), x)),
    (TypeError, "matmul: B: found list; required: a Tensor", lambda g, x: g.matmul(x, [1])),
    (TypeError, "add 'sum': b: found str; required: a Tensor", lambda g, x: g.add(x, "y", name="sum")),
    (TypeError, "add: found int, int; required: a Tensor among a, b", lambda g, x: g.add(1, 2)),
    (TypeError, "relu: .*'slope'; arguments are input, negative_slope", lambda g, x: g.relu(x, slope=1)),
    (TypeError, "gen_index: missing a required argument: 'axis'", lambda g, x: g.gen_index(x)),
    (
        TypeError,
        "relu 'r': upper_clip: found str; required: a number",
        lambda g, x: g.relu(x, upper_clip="6", name="r"),
    ),
    (MalformedGraph, "found 'FLOATY'; required: a data_type: FLOAT", lambda g, x: g.tensor([1], data_type="FLOATY")),
    (MalformedGraph, "reduction: mode: found 'SUM'; required: a reduction_mode", lambda g, x: g.reduction(x, "SUM")),
    (MalformedGraph, "tensor 't': 1 strides for 2 extents", lambda g, x: g.tensor([2, 2], [1], name="t")),
    (MalformedGraph, "tensor 't': dim: found .*positive", lambda g, x: g.tensor([0, 2], name="t")),
    (TypeError, "tensor 't': dim: found .*integers", lambda g, x: g.tensor([1.5, 2], name="t")),
    (MalformedGraph, "conv_fprop 'c': stride: found 1 entries", lambda g, x: g.conv_fprop(x, x, stride=[1], name="c")),
    (TypeError, "found padding beside", lambda g, x: g.conv_fprop(x, x, pre_padding=[1, 1], padding=[1, 1])),
    (MalformedGraph, "sdpa: use_padding_mask needs seq_len_q", lambda g, x: g.sdpa(x, x, x, use_padding_mask=True)),
    (TypeError, "sdpa: dropout: required", lambda g, x: g.sdpa(x, x, x, dropout=(0.5,))),
    (TypeError, "tensor_like: found str", lambda g, x: g.tensor_like("x")),
    (TypeError, r"slice: slices\[0\]: found int; required: a slice", lambda g, x: g.slice(x, [3])),
    (MalformedGraph, "computes in INT32", lambda g, x: g.add(x, 0.5, compute_data_type="INT32")),
    (MalformedGraph, "heuristics: found 'C'; required: a heur_mode", lambda g, x: g.build(["C"])),
    (MalformedGraph, "no operation", lambda g, x: g.validate()),
    (TypeError, "session: found str; required: a Session", lambda g, x: new_graph(session="cpu")),
]


def new_z() -> Tensor:
    return new_graph().tensor([1, 8, 8], name="z")


@pytest.mark.parametrize("kind, message, action", WRONG, ids=[message for _, message, _ in WRONG])
def test_errors_name_what_is_wrong(
    kind: type[Exception], message: str, action: Callable[[pygraph, Tensor], Any]
) -> None:
    graph = new_graph()
    x = graph.tensor([2, 8, 8, 8], name="x")
    with pytest.raises(kind, match=message):
        action(graph, x)


def test_a_malformed_graph_names_operation_and_tensor() -> None:
    graph = new_graph()
    graph.matmul(graph.tensor([1, 8, 16], name="a"), graph.tensor([1, 8, 16], name="b"), name="mm").set_output(True)
    with pytest.raises(MalformedGraph, match="mm"):
        graph.validate()


def test_wrong_executions_name_the_tensor() -> None:
    numpy = pytest.importorskip("numpy")
    graph = new_graph(io_data_type="FLOAT", session=fusewright.Session("cpu"))
    x = numpy.ones((2, 8), numpy.float32)
    X = graph.tensor_like(x, name="x")
    Y = graph.relu(X, name="act").set_output(True)
    wrong: list[tuple[str, dict[Any, Any]]] = [
        ("input 'x' .uid 1. is not given", {Y: x}),
        ("output 'act::OUT_0' .uid 2. is not given", {X: x}),
        ("no tensor of uid 99", {X: x, Y: x, 99: x}),
        ("output 'act::OUT_0' .*shape", {X: x, Y: numpy.ones((8, 2), numpy.float32)}),
        ("output 'act::OUT_0' .*found DOUBLE; required: FLOAT", {X: x, Y: numpy.ones((2, 8))}),
        ("'?x'?.*found", {X: numpy.ones((2, 8)), Y: x}),
        ("0 tensors are named 'q'", {"q": x}),
    ]
    for message, tensors in wrong:
        with pytest.raises(fusewright.ExecutionError, match=message):
            graph.execute(tensors)


# ---- Parity with cuDNN's frontend ------------------------------------------------------------------------------------

# Keywords of theirs that ours lacks: callbacks, outputs of other engines.
WITHOUT = {
    "block_scale_quantize": {"transpose"},
    "reduction": {"group_offset"},
    "sdpa": {"score_mod"},
    "sdpa_fp8": {"fn"},
    "sdpa_backward": {"score_mod", "score_mod_bprop"},
}
# Keywords of ours that theirs lacks.
BEYOND = {
    "elu": {"elu_alpha"},
    "elu_backward": {"elu_alpha"},
    "softplus": {"softplus_beta"},
    "softplus_backward": {"softplus_beta"},
}
# Their extension module has another order than their Python.
UNORDERED = {"swish_backward"}
# Operations that theirs lacks, and methods of the life cycle, which its extension module spells otherwise.
OURS = {"resample_fwd", "dbn_weight", "bn_finalize", "groupnorm", "groupnorm_backward"}
LIFE = {
    "to_json",
    "serialize",
    "deserialize",
    "finalize",
    "check",
    "explain",
    "source",
    "validate",
    "build_operation_graph",
    "create_execution_plans",
    "check_support",
    "build_plans",
    "build",
    "get_workspace_size",
    "execute",
    "get_execution_plan_count",
    "get_plan_name_at_index",
    "get_workspace_size_plan_at_index",
    "build_plan_at_index",
    "select_plan",
    "deselect_engines",
    "deselect_workspace_greater_than",
    "select_behavior_notes",
    "deselect_behavior_notes",
    "select_numeric_notes",
    "deselect_numeric_notes",
    "get_behavior_notes",
    "get_behavior_notes_for_plan_at_index",
    "get_engine_and_knobs_at_index",
    "create_execution_plan",
    "key",
    "execute_plan_at_index",
    "tensor",
    "tensor_like",
    "tensor_scalar",
}

# Of those the ones whose arguments are the first ones of its Python's.
PLANS = sorted(name for name in LIFE if "plan_" in name or name.startswith(("deselect", "select", "execute")))


def operations() -> list[str]:
    public = {name for name, value in inspect.getmembers(pygraph, inspect.isfunction) if not name.startswith("_")}
    return sorted(public - OURS - LIFE)


def signatures_of(docstring: str) -> list[list[str]]:
    """Keywords of each overload that a docstring of an extension module states."""
    signatures = [line for line in docstring.splitlines() if "(self" in line]
    return [[name for name in re.findall(r"[(,] ?(\w+): ", line) if name != "self"] for line in signatures]


@pytest.mark.parametrize("op", operations())
def test_keywords_are_those_of_cudnn(op: str) -> None:
    cudnn = pytest.importorskip("cudnn")
    overloads = signatures_of(getattr(cudnn._pybind_module.backend_graph, op).__doc__)
    theirs = [[name for name in overload if name not in WITHOUT.get(op, ())] for overload in overloads]
    ours = [name for name in inspect.signature(getattr(pygraph, op)).parameters if name != "self"]
    shared = [name for name in ours if name not in BEYOND.get(op, ())]
    assert set(shared) == {name for overload in theirs for name in overload}
    # Of overloads, the order is the last one's; the first one's keyword comes last.
    if op not in UNORDERED:
        assert shared[: len(theirs[-1])] == theirs[-1]


@pytest.mark.parametrize("method", ["tensor", "tensor_like", "tensor_scalar", "execute", "build", "matmul"])
def test_python_methods_have_the_keywords_of_cudnn(method: str) -> None:
    cudnn = pytest.importorskip("cudnn")
    ours = list(inspect.signature(getattr(pygraph, method)).parameters.values())
    theirs = set(inspect.signature(getattr(cudnn.pygraph, method)).parameters)
    named = {parameter.name for parameter in ours if parameter.kind is not inspect.Parameter.KEYWORD_ONLY}
    assert named <= theirs


def test_constructor_has_the_keywords_of_cudnn() -> None:
    cudnn = pytest.importorskip("cudnn")
    ours = set(inspect.signature(pygraph).parameters)
    assert ours - {"session"} <= set(inspect.signature(cudnn.pygraph).parameters)


@pytest.mark.parametrize(
    "kind",
    [
        "data_type",
        "heur_mode",
        "build_plan_policy",
        "reduction_mode",
        "tensor_reordering",
        "behavior_note",
        "numerical_note",
    ],
)
def test_enumerations_are_those_of_cudnn(kind: str) -> None:
    cudnn = pytest.importorskip("cudnn")
    from fusewright._pygraph import enumerations

    assert set(getattr(enumerations, kind).__members__) == set(getattr(cudnn, kind).__members__)


def _relu_of_product(**keywords: Any) -> fusewright.pygraph:
    types: dict[str, Any] = {f"{kind}_data_type": "FLOAT" for kind in ("io", "intermediate", "compute")}
    graph = fusewright.pygraph(**types, **keywords)
    a = graph.tensor(name="a", dim=[1, 4, 8], stride=[32, 8, 1], uid=11)
    b = graph.tensor(name="b", dim=[1, 8, 4], stride=[32, 4, 1], uid=12)
    graph.relu(graph.matmul(a, b)).set_output(True).set_uid(13).set_name("y")
    return graph


def test_graphs_that_were_serialized() -> None:
    np = pytest.importorskip("numpy")
    data = _relu_of_product().serialize()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1, 4, 8), np.float32), rng.standard_normal((1, 8, 4), np.float32)
    for arguments in ([data], [data.encode()], [fusewright.create_handle(), data]):
        graph = fusewright.pygraph(session=fusewright.Session("cpu"))
        graph.deserialize(*arguments)
        graph.build(["A"])
        by_uid, by_name = np.zeros((1, 4, 4), np.float32), np.zeros((1, 4, 4), np.float32)
        graph.execute({11: a, 12: b, 13: by_uid})
        graph.execute({"a": a, "b": b, "y": by_name})
        np.testing.assert_allclose(by_uid, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(by_uid, by_name)
        with pytest.raises(fusewright.ExecutionError, match="no tensor of uid 14"):
            graph.execute({11: a, 12: b, 13: by_uid, 14: a})
        with pytest.raises(fusewright.MalformedGraph, match="it was deserialized"):
            graph.tensor(name="c", dim=[1, 4, 4], stride=[16, 4, 1])
        with pytest.raises(fusewright.MalformedGraph, match="it has operations"):
            graph.deserialize(data)


def test_what_is_no_serialized_graph() -> None:
    graph = fusewright.pygraph(session=fusewright.Session("cpu"))
    for data, words in (("{", "graph"), (b"\xff", "no text in UTF-8"), ("[]", "graph")):
        with pytest.raises(fusewright.FusewrightError, match=words):
            graph.deserialize(data)
    with pytest.raises(TypeError, match="found int; required: str or bytes"):
        graph.deserialize(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="found 0 arguments"):
        graph.deserialize()  # type: ignore[call-overload]
    with pytest.raises(fusewright.MalformedGraph, match="it has operations"):
        _relu_of_product().deserialize("{}")


def test_handles_hold_the_stream() -> None:
    np = pytest.importorskip("numpy")
    handle = fusewright.create_handle()
    assert fusewright.get_stream(handle) is None
    fusewright.set_stream(handle=handle, stream=7)
    assert fusewright.get_stream(handle) == 7
    graph = _relu_of_product(handle=handle, session=fusewright.Session("cpu"))
    a, b, y = np.ones((1, 4, 8), np.float32), np.ones((1, 8, 4), np.float32), np.zeros((1, 4, 4), np.float32)
    graph.execute({11: a, 12: b, 13: y}, None, handle=handle)
    assert (y == 8).all()
    fusewright.destroy_handle(handle)
    with pytest.raises(fusewright.ExecutionError, match="execute: the handle was destroyed"):
        graph.execute({11: a, 12: b, 13: y})
    with pytest.raises(fusewright.ExecutionError, match="destroy_handle: the handle was destroyed"):
        fusewright.destroy_handle(handle)
    with pytest.raises(TypeError, match="found int; required: a Handle"):
        fusewright.set_stream(3, 0)  # type: ignore[arg-type]


def test_the_version_is_that_of_the_library() -> None:
    assert fusewright.backend_version() == 92100
    assert fusewright.backend_version_string() == "9.21.0"


@pytest.mark.parametrize("method", PLANS)
def test_arguments_about_plans_are_the_first_of_cudnn(method: str) -> None:
    cudnn = pytest.importorskip("cudnn")
    ours, theirs = (inspect.signature(getattr(kind, method)).parameters.values() for kind in (pygraph, cudnn.pygraph))
    names = [parameter.name for parameter in ours if parameter.kind is not parameter.KEYWORD_ONLY]
    assert names == [parameter.name for parameter in theirs][: len(names)]
