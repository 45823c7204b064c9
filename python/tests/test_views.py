"""Tensors by DLPack's exchange API, of a library that is made here: views of arrays of NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewright

Make = Callable[..., fusewright.Graph]
CPU = fusewright.Session("cpu")


class View(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Api(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32 * 2), ("functions", ctypes.c_void_p * 6))


def fill(exported: Exported, place: int) -> int:
    view, array = View.from_address(place), exported.array
    view.data, view.device[:] = exported.address, (1, 0)
    view.ndim, view.code, view.bits, view.lanes, view.byte_offset = array.ndim, 2, 8 * array.itemsize, 1, 0
    exported.extents = [(ctypes.c_int64 * array.ndim)(*values) for values in (array.shape, exported.strides)]
    view.shape, view.strides = (ctypes.cast(values, ctypes.POINTER(ctypes.c_int64)) for values in exported.extents)
    return 0


FILL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(fill)


def capsule(view: Any) -> Any:
    # the older API, the owners' three functions, the view's, and that of streams
    api = Api((1, 3), (None, None, None, None, ctypes.cast(view, ctypes.c_void_p), None))
    KEPT.append(api)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(api), b"dlpack_exchange_api", None)


KEPT: list[Any] = []


class Exported:
    """An array whose type has the API, and no ``__dlpack__``."""

    __dlpack_c_exchange_api__ = capsule(FILL)

    def __init__(self, array: np.ndarray[Any, Any], address: int | None = None) -> None:
        self.array, self.extents = array, list[Any]()
        self.address = array.ctypes.data if address is None else address
        self.strides = [stride // array.itemsize for stride in array.strides]


def operands() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Of integers, whose products are exact."""
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype(np.float32) for shape in ((1, 16, 32), (1, 32, 16)))
    return a, b


def test_views_are_taken_as_they_lie(matmul_relu: Make) -> None:
    a, b = operands()
    spread = np.full((1, 32, 48), np.nan, np.float32)[:, :, ::3]
    spread[...] = b
    (y,) = CPU.plan(matmul_relu()).run(Exported(a), Exported(spread))
    np.testing.assert_array_equal(np.from_dlpack(y), np.maximum(a @ b, 0))


def test_a_tensor_without_memory_is_refused(matmul_relu: Make) -> None:
    a, b = operands()
    with pytest.raises(fusewright.ExecutionError, match=r"'b' \(uid 2\): found a tensor without memory"):
        CPU.plan(matmul_relu()).run(a, Exported(b, 0))


def test_what_a_library_raises_is_raised(matmul_relu: Make) -> None:
    a, b = operands()
    # refuses every object that is no list
    refusing = type("Refusing", (Exported,), {"__dlpack_c_exchange_api__": capsule(ctypes.pythonapi.PyList_Append)})
    with pytest.raises(SystemError, match="bad argument"):
        CPU.plan(matmul_relu()).run(a, refusing(b))
    # and is asked by the protocol, where it has that
    asked = type("Asked", (refusing,), {"__dlpack__": lambda self, **keywords: self.array.__dlpack__(**keywords)})
    (y,) = CPU.plan(matmul_relu()).run(a, asked(b))
    np.testing.assert_array_equal(np.from_dlpack(y), np.maximum(a @ b, 0))
