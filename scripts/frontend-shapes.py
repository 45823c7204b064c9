#!/usr/bin/env python3
"""Executions in other shapes than their graph's, by cuDNN's Python frontend and this library's C ABI, on a machine without a GPU.

    cargo build -p fusewright-cudnn && scripts/fetch-nvrtc.sh
    pip install nvidia-cudnn-frontend==1.32.0
    FUSEWRIGHT_NVRTC=$PWD/.nv scripts/frontend-shapes.py --library target/debug/libfusewright_cudnn.so

A product with a bias and RELU is built once with `is_override_shape_enabled`, and executed in other numbers of rows by `override_uids`, `override_shapes`
and `override_strides`; then graphs of dynamic shapes share a kernel cache. The driver is the tests' own, whose kernels do nothing, and CUDA's
runtime is stood in for, so that what is seen is what arrives, what is compiled and what is refused, not values. A C and a C++ compiler are needed.

With `--gpu` the machine's GPU computes, and PyTorch says whether values are right.
"""

import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

RUNTIME = """
int cudaGetDevice(int* device) { *device = 0; return 0; }
int cudaGetDeviceCount(int* count) { *count = 1; return 0; }
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : attribute == 16 ? 132 : 0;  // major number of the capability, multiprocessors
  return 0;
}
int cudaStreamGetCaptureInfo(void* stream, int* status, ...) { *status = 0; return 0; }
int cudaStreamIsCapturing(void* stream, int* status) { *status = 0; return 0; }
const char* cudaGetErrorString(int error) { return "none"; }
int cudaRuntimeGetVersion(int* version) { *version = 13000; return 0; }
"""

WIDTH, DEPTH = 256, 64
A, B, BIAS, Y = 1, 2, 3, 4
PACK = {A: 0x100000, B: 0x200000, BIAS: 0x300000, Y: 0x400000}
WORKSPACE = 0x1000000
INSIDE = "FRONTEND_SHAPES_INSIDE"


def rows(count, width):
    return [1, count, width], [count * width, width, 1]


def built(cudnn, handle, count, **options):
    """A product of so many rows with a bias and RELU, and the milliseconds that its plan took."""
    types = cudnn.data_type
    graph = cudnn.pygraph(
        io_data_type=types.HALF, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT, handle=handle, **options
    )
    dim, stride = rows(count, DEPTH)
    a = graph.tensor(name="A", dim=dim, stride=stride, uid=A)
    b = graph.tensor(name="B", dim=[1, DEPTH, WIDTH], stride=[DEPTH * WIDTH, 1, DEPTH], uid=B)
    bias = graph.tensor(name="bias", dim=[1, 1, WIDTH], stride=[WIDTH, WIDTH, 1], uid=BIAS)
    y = graph.relu(name="relu", input=graph.bias(name="sum", input=graph.matmul(name="product", A=a, B=b), bias=bias))
    y.set_output(True).set_uid(Y)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    start = time.time()
    graph.build_plans()
    return graph, 1e3 * (time.time() - start)


def execute(graph, handle, shapes, pack=PACK, workspace=WORKSPACE):
    """Executes a graph in shapes by uid; what it is refused with, if it is."""
    dims, strides = ([shape[part] for shape in shapes.values()] for part in (0, 1))
    try:
        graph.execute(pack, workspace, handle=handle, override_uids=list(shapes), override_shapes=dims, override_strides=strides)
    except Exception as error:  # the frontend's own, of several types
        return str(error)
    return None


class Launches:
    """Says whether executions since it was last asked did something: the tests' driver counts its launches."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.seen = 0

    def pack(self, count):
        return PACK, WORKSPACE

    def fault(self, count):
        before, self.seen = self.seen, self.driver.fake_any_launches()
        return None if self.seen > before else "nothing was launched"


class Values:
    """Says whether the last execution's values are PyTorch's."""

    def __init__(self):
        import torch

        self.torch = torch
        draw = lambda *dim: torch.randn(*dim, device="cuda", dtype=torch.float16)
        self.tensors = {A: draw(1, 256, DEPTH), B: draw(1, WIDTH, DEPTH), BIAS: draw(1, 1, WIDTH)}
        self.workspace = torch.empty(1 << 24, device="cuda", dtype=torch.uint8)

    def pack(self, count):
        self.tensors[Y] = self.torch.full((1, 256, WIDTH), float("nan"), device="cuda", dtype=self.torch.float16)
        return self.tensors, self.workspace

    def fault(self, count):
        self.torch.cuda.synchronize()
        a, b, bias, y = (self.tensors[uid].float() for uid in (A, B, BIAS, Y))
        expected = (a[:, :count] @ b.transpose(1, 2) + bias).relu()
        if not y[:, count:].isnan().all():
            return "rows beyond the last were written"
        error = (y[:, :count] - expected).abs().max().item()
        # half a unit in the last place of HALF below 64 is 0.016; sums of 64 products in FLOAT add little
        return None if error <= 0.02 else f"an error of {error}"


def run(judge):
    import cudnn

    handle = cudnn.create_handle()
    judge = judge()
    failures = []

    def expect(what, holds):
        print(("as expected: " if holds else "WRONG: ") + what)
        failures.extend([] if holds else [what])

    graph, _ = built(cudnn, handle, 128, is_override_shape_enabled=True)
    for count in (128, 64, 7, 1, 200, 64):
        pack, workspace = judge.pack(count)
        refused = execute(graph, handle, {A: rows(count, DEPTH), Y: rows(count, WIDTH)}, pack, workspace)
        fault = refused or judge.fault(count)
        expect(f"{count} rows: {fault or 'executed'}", fault is None)
    lacking = execute(graph, handle, {A: rows(7, DEPTH)})
    expect(f"Y's shape is not given: {lacking}", "BAD_PARAM_SHAPE_MISMATCH" in str(lacking))
    static, _ = built(cudnn, handle, 128)
    refused = execute(static, handle, {A: rows(7, DEPTH), Y: rows(7, WIDTH)})
    expect(f"a graph without the flag: {refused}", "NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE" in str(refused))

    cache = cudnn.create_kernel_cache()
    for count in (128, 64, 8, 7, 120):
        graph, milliseconds = built(cudnn, handle, count, is_dynamic_shape_enabled=True, kernel_cache=cache)
        graph.execute(*judge.pack(count), handle=handle)
        fault = judge.fault(count)
        expect(f"kernel cache, {count} rows: plan in {milliseconds:.1f} ms, {fault or 'executed'}", fault is None)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="the shared library of this project")
    parser.add_argument("--gpu", action="store_true", help="the machine's GPU computes; PyTorch is needed")
    arguments = parser.parse_args()
    if INSIDE in os.environ:
        sys.exit(1 if run(Values if arguments.gpu else Launches) else 0)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        if not arguments.gpu:
            stand_in(place)
        (place / "libcudnn.so.9").symlink_to(pathlib.Path(arguments.library).resolve())
        path = os.pathsep.join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))
        environment = {**os.environ, "LD_LIBRARY_PATH": path, INSIDE: "1", "FAKE_CUDA_ANY": "1", "FUSEWRIGHT_CACHE": "off"}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)


def stand_in(place):
    """Builds a driver and a runtime that do nothing."""
    (place / "runtime.c").write_text(RUNTIME)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", place / "libcudart.so.13", place / "runtime.c"], check=True)
    fake = ROOT / "src/plan/tests/fake_cuda.cpp"
    options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-DVERSION=13000"]
    subprocess.run(["c++", *options, "-o", place / "libcuda.so.1", fake], check=True)


if __name__ == "__main__":
    main()
