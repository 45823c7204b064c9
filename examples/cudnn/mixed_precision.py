"""Y = gelu((A·B)·scale + bias) of BF16 activations A and INT8 weights B, by the cuDNN frontend; compared with PyTorch.

    pip install torch nvidia-cudnn-frontend
    LD_LIBRARY_PATH="$FOLDER" python3 examples/cudnn/mixed_precision.py

FOLDER has the library (libcudnn.so.9); without it, the frontend takes the cuDNN that is installed.
"""

import sys

import torch  # before cudnn: PyTorch loads a cuDNN of its own, under the same name
import cudnn

M, N, K = 64, 1024, 512
HEURISTICS = [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK]


def new_graph(handle):
    return cudnn.pygraph(
        io_data_type=cudnn.data_type.BFLOAT16,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
        handle=handle,
    )


def build(handle, a, b, scale, bias, y):
    """The graph with a plan, and the memory of its tensors."""
    graph = new_graph(handle)
    A, B, SCALE, BIAS = (graph.tensor_like(tensor) for tensor in (a, b, scale, bias))
    weights = graph.identity(input=B)  # inside the kernel, INT8 becomes BF16 on its way to the tensor cores
    weights.set_data_type(cudnn.data_type.BFLOAT16)
    product = graph.matmul(A=A, B=weights)
    Y = graph.gelu(input=graph.bias(input=graph.mul(a=product, b=SCALE), bias=BIAS))
    Y.set_output(True)
    graph.build(HEURISTICS)
    return graph, {A: a, B: b, SCALE: scale, BIAS: bias, Y: y}


def largest_error(a, b, scale, bias, y):
    """How far Y is from the result in double precision, and whether rounding explains that everywhere."""
    a, b, scale, bias, y = (tensor.double() for tensor in (a, b, scale, bias, y))
    expected = torch.nn.functional.gelu((a @ b) * scale + bias)
    # Each of K + 2 steps in FLOAT is wrong by at most 2⁻²³ of all magnitudes (twice what rounding costs: tensor cores may
    # cut bits off). GELU is no steeper than 1.13, and has roundings of its own. Rounding to BF16, of 8 significant bits,
    # adds at most 2⁻⁸ of the result.
    steps = (K + 2) * 2**-23 * ((a.abs() @ b.abs()) * scale.abs() + bias.abs())
    error = (y - expected).abs()
    return error.max().item(), bool((error <= 2 * steps + 2**-8 * expected.abs()).all())


def refusal(handle):
    """Why a matmul of DOUBLE is refused."""
    graph = new_graph(handle)
    square = graph.tensor(dim=[1, 64, 64], stride=[4096, 64, 1], data_type=cudnn.data_type.DOUBLE)
    graph.matmul(A=square, B=square).set_output(True).set_data_type(cudnn.data_type.DOUBLE)
    try:
        graph.build(HEURISTICS)
    except cudnn.cudnnGraphNotSupportedError as error:
        return str(error)
    return "it is supported"


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    torch.manual_seed(1)
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    on_gpu = {"device": "cuda", "dtype": torch.bfloat16}
    a = torch.randn(1, M, K, **on_gpu)
    b = torch.randint(-128, 128, (1, N, K), device="cuda", dtype=torch.int8).transpose(1, 2)  # [1,K,N], K contiguous
    scale = torch.rand(1, 1, N, **on_gpu) / 1024  # dequantizes each column of B
    bias = torch.randn(1, 1, N, **on_gpu)
    y = torch.full((1, M, N), torch.nan, **on_gpu)

    graph, pack = build(handle, a, b, scale, bias, y)
    engine, knobs = graph.get_engine_and_knobs_at_index(0)
    print(f"cuDNN {cudnn.backend_version_string()}, {graph.get_execution_plan_count()} plans")
    print(f"the first is {graph.get_plan_name_at_index(0)}: engine {engine}, knobs {knobs}")
    workspace = torch.empty(graph.get_workspace_size(), device="cuda", dtype=torch.uint8)
    graph.execute(pack, workspace, handle=handle)
    torch.cuda.synchronize()

    error, is_right = largest_error(a, b, scale, bias, y)
    print(f"largest error {error:.3g}, {'within' if is_right else 'BEYOND'} what rounding explains")
    print(f"in DOUBLE: {refusal(handle)}")
    cudnn.destroy_handle(handle)
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
