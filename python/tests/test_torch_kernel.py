"""The operator's kernel in Rust, on CPU tensors, where all but the launch is what a GPU's tensors get: the stack,
strings, lists, layouts, errors, and who owns what. It is registered for an operator of its own, and held against the
kernel in Python.

With a GPU there, the operator itself is tested on it as well.
"""

import gc
import json
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import conftest  # noqa: E402

from fusewright import Graph  # noqa: E402
from fusewright._core import register_torch_kernel  # noqa: E402
from fusewright.torch import _op, _sized  # noqa: E402

NAMESPACE = "fusewright_kernel_test"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
_LIBRARY.define("run(Tensor[] inputs, str graph, str device='') -> Tensor[]")

_LIBRARY.define("run_sized(Tensor[] inputs, SymInt[] sizes, str graph, str device='') -> Tensor[]")

if not register_torch_kernel("CPU", NAMESPACE) or not register_torch_kernel("CPU", NAMESPACE, "run_sized"):
    pytest.skip("PyTorch is older than 2.10", allow_module_level=True)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def matmul_relu_text(*arguments):
    """With all that is inferred, as the pass writes graphs."""
    return Graph.from_json(conftest.matmul_relu_text(*arguments)).to_json()


TEXT = matmul_relu_text()


def run(inputs, text=TEXT, device=""):
    """By the kernel in Rust."""
    namespace = NAMESPACE if inputs and inputs[0].device.type == "cpu" else "fusewright"
    return getattr(torch.ops, namespace).run(inputs, text, device)


def run_by_python(inputs, text=TEXT):
    return (_op._run_cpu if inputs[0].device.type == "cpu" else _op._run_cuda)(inputs, text)


def operands(device="cpu", m=16, n=16, k=32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).to(device) for shape in ((m, k), (k, n))]


def assert_equal(found, wanted):
    assert [(f.shape, f.stride(), f.dtype, f.device) for f in found] == [
        (w.shape, w.stride(), w.dtype, w.device) for w in wanted
    ]
    assert all(torch.equal(f, w) for f, w in zip(found, wanted, strict=True))


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def test_results_are_those_of_the_kernel_in_python(device):
    inputs = operands(device)
    assert_equal(run(inputs), run_by_python(inputs))


def test_outputs_have_the_strides_of_the_graph(device):
    graph = json.loads(TEXT)
    (output,) = (tensor for tensor in graph["tensors"] if tensor["uid"] == 4)
    output["stride"] = [256, 1, 16]
    inputs, text = operands(device), json.dumps(graph)
    (found,) = run(inputs, text)
    assert found.stride() == (256, 1, 16)
    assert_equal([found], run_by_python(inputs, text))


@pytest.mark.parametrize("data_type, dtype", [("HALF", torch.float16), ("BFLOAT16", torch.bfloat16)])
def test_every_type_has_pytorchs_number(device, data_type, dtype):
    inputs, text = [x.to(dtype) for x in operands(device)], matmul_relu_text((16, 16, 32), data_type)
    assert_equal(run(inputs, text), run_by_python(inputs, text))


def less_text():
    """x < y, as booleans."""
    shape = {"dim": [2, 3], "stride": [3, 1], "data_type": "FLOAT", "is_virtual": False}
    ends = {"inputs": {"IN_0": 1, "IN_1": 2}, "outputs": {"OUT_0": 3}}
    graph = {
        "context": {"compute_data_type": "FLOAT", "intermediate_data_type": "FLOAT", "io_data_type": "FLOAT"},
        "json_version": "2.0",
        "nodes": [{"tag": "POINTWISE", "mode": "CMP_LT", "name": "less", **ends}],
        "tensors": [
            {"uid": 1, "name": "x", **shape},
            {"uid": 2, "name": "y", **shape},
            {"uid": 3, "name": "is_less", **shape, "data_type": "BOOLEAN"},
        ],
    }
    return json.dumps(graph)


def test_booleans_are_bytes_on_the_cpu():
    x = torch.arange(6.0).reshape(2, 3)
    y = torch.tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]])
    (found,) = run([x, y], less_text())
    assert torch.equal(found, x < y)


# Sizes.


def sized_text():
    """relu(a b) of m by k and k by n, with `m` rows as two axes of the result, of which the first is given."""
    graph = json.loads(TEXT)
    m, n, k = [1, "0.0"], [1, "1.1"], [1, "0.1"]
    matrices = {
        1: ([1, m, k], [[1, "0.0", "0.1"], k, 1]),
        2: ([1, k, n], [[1, "1.1", "0.1"], n, 1]),
    }
    result = ([1, m, n], [[1, "0.0", "1.1"], n, 1])
    shapes = {t["uid"]: matrices.get(t["uid"], result) for t in graph["tensors"]}
    sizes = {uid: {"dim": dim, "stride": stride} for uid, (dim, stride) in shapes.items()}
    rows = [[1, "$0"], [1, "$1"]]
    outputs = [{"dim": [*rows, n], "stride": [[1, "$1", "1.1"], n, 1]}]
    return json.dumps({"graph": graph, "sizes": sizes, "outputs": outputs})


SIZED_TEXT = sized_text()


def run_sized(inputs, sizes, text=SIZED_TEXT, device=""):
    namespace = NAMESPACE if inputs and inputs[0].device.type == "cpu" else "fusewright"
    return getattr(torch.ops, namespace).run_sized(inputs, sizes, text, device)


@pytest.mark.parametrize("rows, n, k", [((4, 4), 16, 32), ((3, 5), 8, 7), ((1, 2), 3, 65), ((9, 7), 1, 1)])
def test_sized_results_are_those_of_the_kernel_in_python(device, rows, n, k):
    inputs = operands(device, rows[0] * rows[1], n, k)
    kernel = _sized._run_cpu if device == "cpu" else _sized._run_cuda
    (found,), wanted = run_sized(inputs, rows), kernel(inputs, rows, SIZED_TEXT)
    assert_equal([found], wanted)
    torch.testing.assert_close(found.reshape(-1, n), torch.relu(inputs[0] @ inputs[1]), rtol=1e-2, atol=1e-2)


def test_sized_operands_in_other_layouts_are_copied(device):
    a, b = operands(device, 6, 10, 12)
    (found,) = run_sized([transposed(a), b], (2, 3))
    assert_equal([found], run_sized([a, b], (2, 3)))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x, s, t: (x[:1], s, t), "found 1 tensors; required: more"),
        (lambda x, s, t: (x, s[:1], t), "found 1 sizes; required: more"),
        (lambda x, s, t: ([x[0].flatten(), x[1]], s, t), r"tensor 0: found shape \[96\]; required: more axes"),
        (lambda x, s, t: ([x[0], x[1][:5]], s, t), "as many elements as"),
        (lambda x, s, t: ([x[0].double(), x[1]], s, t), "found DOUBLE; required: FLOAT"),
        (lambda x, s, t: (x, s, t[:99]), "graph: "),
        (lambda x, s, t: (x, s, TEXT), "no text of a graph with sizes"),
        (lambda x, s, t: (x, s, t.replace('"$1"', '"$x"')), "no text of a graph with sizes"),
        (lambda x, s, t: (x, (2, 5), t), "do not lie as its outputs do"),
        (lambda x, s, t: (x, (-2, -4), t), "do not lie as its outputs do"),
        (lambda x, s, t: ([], s, t), "found no tensors|There were no tensor arguments"),
    ],
    ids=str,
)
def test_sized_errors(change, message):
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        run_sized(*change(operands(m=8, k=12), (2, 4), SIZED_TEXT))
    assert len(run_sized(operands(m=8, k=12), (2, 4))) == 1


def test_sizes_that_are_beyond_64_bits_are_refused():
    text = SIZED_TEXT.replace('[1, "0.0"]', '[4611686018427387904, "0.0"]')
    with pytest.raises(RuntimeError, match="beyond 64 bits"):
        run_sized(operands(m=8, k=12), (2, 4), text)


def test_sized_executions_of_many_shapes_and_threads():
    failures = []

    def work(first):
        try:
            for m in range(first, first + 40):
                inputs = operands(m=m % 13 + 2, n=4, k=5)
                (found,) = run_sized(inputs, (1, m % 13 + 2))
                torch.testing.assert_close(found[0], torch.relu(inputs[0] @ inputs[1]), rtol=1e-2, atol=1e-2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Layouts.


def transposed(x):
    return x.t().contiguous().t()


def spread(x):
    return torch.stack((x, x), -1)[..., 0]


def misaligned(x):
    return torch.cat((x.new_zeros(1), x.flatten()))[1:].view(x.shape)


def split(x):
    """Other extents, which no view turns into those of the graph."""
    return x.reshape(2, -1, x.shape[1]).transpose(0, 1).contiguous().transpose(0, 1)


@pytest.mark.parametrize("change", [transposed, spread, misaligned, split, torch.Tensor.contiguous])
@pytest.mark.parametrize("number", [0, 1])
def test_operands_in_other_layouts_are_copied(device, change, number):
    inputs = operands(device)
    wanted = run(inputs)
    inputs[number] = change(inputs[number])
    before = inputs[number].clone()
    assert_equal(run(inputs), wanted)
    assert torch.equal(inputs[number], before)


@pytest.mark.parametrize("seed", range(60))
def test_any_view_reads_as_in_python(seed):
    """Random extents and strides of as many elements: sliced, permuted, broadcast, reshaped."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *choices: choices[int(torch.randint(len(choices), (), generator=generator))]  # noqa: E731
    shape = draw((16, 32), (4, 4, 32), (2, 8, 4, 8), (1, 16, 1, 32), (16, 2, 16), (512,), (8, 64))
    order = torch.randperm(len(shape), generator=generator).tolist()
    sizes = [shape[axis] * draw(1, 2) for axis in order]
    begins = [draw(0, size - shape[axis]) for axis, size in zip(order, sizes, strict=True)]
    a = torch.randn(*sizes, generator=generator)
    a = a[tuple(slice(begin, begin + shape[axis]) for axis, begin in zip(order, begins, strict=True))]
    a = a.permute(*(order.index(axis) for axis in range(len(shape))))
    if draw(False, True):
        a = a[:1].expand(shape)
    (_, b) = operands()
    assert a.shape == torch.Size(shape)
    assert_equal(run([a, b]), run_by_python([a, b]))


# Errors.

WRONG = [
    (lambda a, b: [a], r"found 1 tensors; required: 2: 'a' \(uid 1\), 'b' \(uid 2\)"),
    (lambda a, b: [a, b, b], "found 3 tensors; required: 2"),
    (lambda a, b: [a, b.half()], r"'b' \(uid 2\): found HALF; required: FLOAT"),
    (lambda a, b: [a.to(torch.complex64), b], r"'a' \(uid 1\): found PyTorch's type \d+; required: FLOAT"),
    (lambda a, b: [a, b[:16]], r"'b' \(uid 2\): found shape \[16, 16\]; required: as many elements as \[1, 32, 16\]"),
    (lambda a, b: [a[:0], b], r"'a' \(uid 1\): found shape \[0, 32\]; required: as many elements as \[1, 16, 32\]"),
]


@pytest.mark.parametrize("change, message", WRONG)
def test_wrong_tensors_are_named(device, change, message):
    with pytest.raises(RuntimeError, match=message):
        run(change(*operands(device)))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no graph"),
        ("{", "unterminated object"),
        (TEXT[: len(TEXT) // 2], "graph"),
        (TEXT.replace("RELU_FWD", "RELU_F\0D"), "RELU_F"),
        (TEXT.replace('"product"', '"\N{GREEK SMALL LETTER PI}"').replace("MATMUL", "MATMUS"), "MATMUS"),
    ],
)
def test_damaged_texts_are_errors(device, text, message):
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            run(operands(device), text)


@pytest.mark.parametrize("session", ["cuda:7", "cuda:0", "cuda", "tpu", "cpu:1", " "])
def test_sessions_that_cannot_take_the_tensors_are_refused(session):
    with pytest.raises(RuntimeError, match=f"device: '{session}' cannot take tensors of cpu"):
        run(operands(), device=session)


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_tensors_of_another_device_are_named():
    (a, b), (_, on_host) = operands("cuda"), operands()
    with pytest.raises(RuntimeError, match=r"'b' \(uid 2\): lies on cpu; required: cuda:0"):
        run([a, on_host])
    assert_equal(run([a, b]), run_by_python([a, b]))


def test_an_error_can_be_caught_and_the_next_call_works():
    inputs = operands()
    wanted = run(inputs)
    for _ in range(100):
        with pytest.raises(RuntimeError):
            run(inputs[:1])
        assert_equal(run(inputs), wanted)


# Sessions, and who shares what.


def test_the_emulator_runs_the_generated_kernel():
    inputs = operands()
    (found,), (wanted,) = run(inputs, device="emulator"), run(inputs)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2**-9 * 32**0.5 * 4)  # TF32 operands, 32 products


def test_texts_of_one_length_are_told_apart():
    inputs = operands()
    texts = [TEXT.replace('"RELU_FWD"', f'"{mode}"') for mode in ("RELU_FWD", "TANH_FWD")]
    assert len(set(map(len, texts))) == 1
    for _ in range(2):
        relu, tanh = (run(inputs, text)[0] for text in texts)
        product = inputs[0] @ inputs[1]
        torch.testing.assert_close(relu[0], product.relu())
        torch.testing.assert_close(tanh[0], product.tanh())


def test_threads_share_executions(device):
    sizes = [(16, 16, 32), (8, 16, 32), (16, 24, 8)]
    cases = [(operands(device, m, n, k), matmul_relu_text((m, n, k))) for m, n, k in sizes]
    wanted = [run_by_python(*case) for case in cases]
    failures = []

    def work():
        try:
            for _ in range(100):
                for case, expected in zip(cases, wanted, strict=True):
                    assert_equal(run(*case), expected)
                with pytest.raises(RuntimeError):
                    run(cases[0][0], cases[1][1])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Memory.


def test_tensors_have_no_owner_left(device):
    inputs = [*operands(device), spread(operands(device)[1])]
    a, b, other = inputs
    before = [x._use_count() for x in inputs]
    (found,) = run([a, b])
    assert found._use_count() == torch.empty(1)._use_count()
    run([a, other])
    for change, _ in WRONG:
        with pytest.raises(RuntimeError):
            run(change(a, b))
    with pytest.raises(RuntimeError):
        run([a, b], "{")
    with pytest.raises(RuntimeError):
        run([a, b], device="tpu")
    gc.collect()
    assert [x._use_count() for x in inputs] == before


def _resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of the process is read from Linux")
@pytest.mark.parametrize("calls, inputs", [(20_000, operands(m=2, n=2, k=2)), (100_000, operands(m=2, n=2, k=2)[:1])])
def test_calls_do_not_grow_the_process(calls, inputs):
    """The calls that succeed and those that throw; a text of a tenth of a MB would show a string that stays."""
    text = matmul_relu_text((2, 2, 2)) + " " * (100_000 if calls < 50_000 else 1000)

    def call():
        try:
            run(inputs, text)
        except RuntimeError:
            assert len(inputs) == 1

    for _ in range(2000):
        call()
    before = _resident_bytes()
    for _ in range(calls):
        call()
    assert _resident_bytes() - before < 4e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of the process is read from Linux")
def test_sized_calls_do_not_grow_the_process():
    """Of two shapes in turn, and of calls that throw; a text of a tenth of a MB would show a string that stays."""
    text, shapes = SIZED_TEXT + " " * 100_000, [operands(m=m, n=2, k=2) for m in (2, 4)]

    def call(number):
        inputs = shapes[number % 2]
        run_sized(inputs, (2, number % 2 + 1), text)
        with pytest.raises(RuntimeError):
            run_sized(inputs, (2,), text)

    for number in range(500):
        call(number)
    before = _resident_bytes()
    for number in range(3000):
        call(number)
    assert _resident_bytes() - before < 4e6
    assert [x._use_count() for x in shapes[0]] == [x._use_count() for x in operands()]


def test_without_pytorch_nothing_is_registered():
    code = "from fusewright._core import register_torch_kernel as r; assert not r('CPU') and not r('CUDA')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_keys_have_no_kernel():
    assert not register_torch_kernel("XPU", NAMESPACE)
