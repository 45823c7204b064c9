"""How tensors of other libraries are taken: DLPack's exchange API, its protocol, and the CUDA Array Interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewright

torch = pytest.importorskip("torch")

Make = Callable[..., fusewright.Graph]
has_api = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this PyTorch has no exchange API"
)


def operands(session: fusewright.Session) -> tuple[Any, Any]:
    device = session.device if session.device.startswith("cuda") else "cpu"
    generator = torch.Generator(device).manual_seed(1)
    # of integers, whose products are exact
    a, b = (torch.randint(-3, 4, shape, device=device, generator=generator) for shape in ((1, 16, 32), (1, 32, 16)))
    return a.float(), b.float()


def on_current_stream(session: fusewright.Session) -> dict[str, int]:
    return {"stream": torch.cuda.current_stream().cuda_stream} if session.device.startswith("cuda") else {}


def run(session: fusewright.Session, plan: fusewright.Plan, *tensors: Any) -> Any:
    return torch.from_dlpack(plan.run(*tensors, **on_current_stream(session))[0])


@has_api
def test_tensors_are_taken_without_a_call_of_python(
    session: fusewright.Session, matmul_relu: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands(session)
    plan = session.plan(matmul_relu())
    want = run(session, plan, a, b)
    assert torch.equal(want, torch.relu(a @ b))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked in Python")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", refuse)
    assert torch.equal(torch.utils.dlpack.from_dlpack(plan.run(a, b, **on_current_stream(session))[0]), want)


def test_views_are_read_as_they_lie(session: fusewright.Session, matmul_relu: Make) -> None:
    if session.device.startswith("cuda"):
        pytest.skip("a GPU's kernel has strides of its own")
    a, b = operands(session)
    plan = session.plan(matmul_relu())
    want = run(session, plan, a, b)
    spread = torch.full((1, 32, 33), float("nan"))[:, :, ::2][:, :, :16]
    spread.copy_(b)
    transposed = a.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(run(session, plan, transposed, spread), want)


def test_what_the_protocol_refuses_stays_refused(session: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(session)
    with pytest.raises(BufferError, match="require gradient"):
        run(session, session.plan(matmul_relu()), a.requires_grad_(), b)


def test_values_that_are_negated_when_read_are_refused(session: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(session)
    negated = torch.complex(b, b).conj().imag
    assert negated.is_neg()
    with pytest.raises(BufferError, match="required: resolve_neg"):
        run(session, session.plan(matmul_relu()), a, negated)


class Header(ctypes.Structure):
    pass


Header._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.POINTER(Header))]


def capsule(header: Any, name: bytes = b"dlpack_exchange_api") -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(header), name, None)


class Wrapped:
    """A tensor that exports DLPack."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.tensor.__dlpack__(**keywords)


def test_versions_that_are_not_known_are_passed_over(session: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(session)
    plan = session.plan(matmul_relu())
    want = run(session, plan, a, b)
    newest = Header(3, 0, None)
    newer = Header(2, 7, ctypes.pointer(newest))
    of_newer = type("OfNewer", (Wrapped,), {"__dlpack_c_exchange_api__": capsule(newer)})
    assert torch.equal(run(session, plan, of_newer(a), of_newer(b)), want)


def test_a_capsule_of_another_name_is_an_error(session: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(session)
    header, name = Header(1, 3, None), b"something_else"
    of_other = type("OfOther", (Wrapped,), {"__dlpack_c_exchange_api__": capsule(header, name)})
    with pytest.raises(ValueError, match="PyCapsule"):
        run(session, session.plan(matmul_relu()), of_other(a), b)


class CudaArray:
    """An array that knows no DLPack, described by its interface."""

    def __init__(self, tensor: Any, **changes: Any) -> None:
        described = {"shape": tuple(tensor.shape), "typestr": "<f4", "data": (tensor.data_ptr(), False), "version": 3}
        described |= changes
        self.keeps = tensor
        self.__cuda_array_interface__ = {name: value for name, value in described.items() if value is not ...}


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"mask": object()}, TypeError, "with a mask"),
        ({"typestr": ">f4"}, TypeError, "order of bytes"),
        ({"typestr": "<c8"}, TypeError, "required: numbers"),
        ({"typestr": "f"}, TypeError, "required: numbers"),
        ({"data": ...}, TypeError, 'without "data"'),
        ({"shape": None}, TypeError, 'without "shape"'),
        ({"strides": (2048, 128, 3)}, ValueError, "multiples of 4"),
        ({"strides": (128, 4)}, ValueError, "2 strides of 3 axes"),
        ({"typestr": "<f8"}, fusewright.ExecutionError, r"'a' \(uid 1\): found DOUBLE; required: FLOAT"),
        ({"shape": (16, 32)}, fusewright.ExecutionError, r"found shape \[16, 32\]; required: \[1, 16, 32\]"),
    ],
)
def test_cuda_arrays_that_do_not_fit_are_named(
    session: fusewright.Session, matmul_relu: Make, changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    a, b = operands(session)
    with pytest.raises(kind, match=message):
        run(session, session.plan(matmul_relu()), CudaArray(a, **changes), b)


def test_cuda_arrays_are_for_a_gpu(session: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(session)
    plan = session.plan(matmul_relu())
    if not session.device.startswith("cuda"):
        with pytest.raises(fusewright.ExecutionError, match="lies on a device; required: memory of the CPU"):
            run(session, plan, CudaArray(a), b)
        return
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(10_000_000)
        late = a.clone()
    strides = tuple(4 * stride for stride in b.stride())
    found = run(session, plan, CudaArray(late, stream=other.cuda_stream), CudaArray(b, strides=strides))
    assert torch.equal(found, run(session, plan, a, b))


def test_arrays_of_numpy_have_the_protocol_alone(session: fusewright.Session, matmul_relu: Make) -> None:
    if session.device.startswith("cuda"):
        pytest.skip("tensors of NumPy are in host memory")
    a, b = operands(session)
    plan = session.plan(matmul_relu())
    (y,) = plan.run(a.numpy(), b)
    np.testing.assert_array_equal(np.from_dlpack(y), run(session, plan, a, b).numpy())
