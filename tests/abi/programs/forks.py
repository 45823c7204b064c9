"""Children of a threaded Python program use the library, by os.fork and by multiprocessing.

The argument: the library."""
import ctypes
import multiprocessing
import os
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # that forking threaded programs is dangerous
ABI = ctypes.CDLL(sys.argv[1])
TENSOR, POINTWISE = 17, 0
DATA_TYPE, INT64, POINTWISE_MODE = 1, 3, 14
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def succeed(status):
    assert status == 0, status


class Descriptor:
    def __init__(self, kind):
        self.pointer = ctypes.c_void_p()
        succeed(ABI.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.pointer)))

    def set(self, name, of_type, *values):
        element = ctypes.c_int64 if of_type == INT64 else ctypes.c_int32
        elements = (element * len(values))(*values)
        count = ctypes.c_int64(len(values))
        succeed(ABI.cudnnBackendSetAttribute(self.pointer, name, of_type, count, elements))

    def finish(self):
        succeed(ABI.cudnnBackendFinalize(self.pointer))
        succeed(ABI.cudnnBackendDestroyDescriptor(self.pointer))


def use(uid):
    """Makes a tensor and a mode; gives the uid."""
    tensor = Descriptor(TENSOR)
    tensor.set(906, INT64, uid)
    tensor.set(901, DATA_TYPE, 2)
    tensor.set(900, INT64, 16)
    tensor.set(902, INT64, 1, 8, 16)
    tensor.set(903, INT64, 128, 16, 1)
    tensor.finish()
    mode = Descriptor(POINTWISE)
    mode.set(0, POINTWISE_MODE, 100)
    mode.set(1, DATA_TYPE, 0)
    mode.finish()
    return uid


def fork_and_use():
    child = os.fork()
    if child == 0:
        code = 1
        try:
            use(7)
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.001)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def main():
    is_over = threading.Event()

    def work(uid):
        while not is_over.is_set():
            use(uid)

    threads = [threading.Thread(target=work, args=(uid,)) for uid in range(4)]
    for thread in threads:
        thread.start()
    try:
        good = sum(fork_and_use() for _ in range(20))
        assert good == 20, good
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map_async(use, range(50)).get(timeout=30) == list(range(50))

        # the callback wants the lock of the interpreter, which the forking thread holds
        told = []
        callback = CALLBACK(lambda *_: told.append(os.getpid()))
        succeed(ABI.cudnnSetCallback(1 << 3, None, callback))
        while len(told) < 100:
            time.sleep(0.001)
        start = time.monotonic()
        assert fork_and_use()
        assert time.monotonic() - start < 20
        succeed(ABI.cudnnSetCallback(0, None, None))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    print("passed")


main()
