"""The library from Python by ctypes, which needs nothing but what the library exports: structs by value, a request of
one's own, an event of a queue.

Usage: ctypes_test.py LIBTROUPE_SO
"""

import ctypes as c
import sys

lib = c.CDLL(sys.argv[1])
FOREVER, HOST, F32, ROW_MAJOR = -1, 2, 2, 1


class Handle(c.Structure):  # trp_buffer, trp_future
    _fields_ = [("id", c.c_uint64)]


class Scalar(c.Structure):
    _fields_ = [("re", c.c_double), ("im", c.c_double), ("given", c.c_bool)]


class Request(c.Structure):
    _fields_ = [("op", c.c_uint32), ("size", c.c_uint32), ("deadline_ns", c.c_uint64), ("wait_ns", c.c_int64),
                ("label", c.c_char_p)]


class Completion(c.Structure):
    _fields_ = [("queue", c.c_void_p), ("user_data", c.c_void_p), ("future", Handle)]


class DeviceOptions(c.Structure):  # as far as it is filled in; the rest is zero
    _fields_ = [("backend", c.c_int), ("rest", c.c_char * 508)]


class ActorOptions(c.Structure):
    _fields_ = [("kind", c.c_char_p), ("rest", c.c_char * 504)]


lib.trp_real.restype = Scalar
lib.trp_real.argtypes = [c.c_double]
lib.trp_version.restype = lib.trp_error_message.restype = c.c_char_p
lib.trp_await.argtypes = [Handle, c.c_int64, c.c_void_p]
lib.trp_buffer_create.argtypes = [c.c_void_p, c.c_uint64, c.POINTER(Handle)]
for copy in (lib.trp_write, lib.trp_read):
    copy.argtypes = [c.c_void_p, Handle, c.c_uint64, c.c_void_p, c.c_uint64, c.POINTER(Completion)]
lib.trp_fill.argtypes = [c.c_void_p, Handle, c.c_uint64, c.c_uint64, c.c_uint32, c.c_uint32, c.POINTER(Completion)]


def need(status):
    assert status == 0, lib.trp_error_message()


def wait(send, *arguments):
    done = Completion()
    need(send(*arguments, c.byref(done)))
    need(lib.trp_await(done.future, FOREVER, None))


print("library", lib.trp_version().decode())
half = lib.trp_real(0.5)
assert (half.re, half.im, half.given) == (0.5, 0.0, True)

system, device, blas, queue = c.c_void_p(), c.c_void_p(), c.c_void_p(), c.c_void_p()
need(lib.trp_system_create(None, c.byref(system)))
need(lib.trp_device_open(system, c.byref(DeviceOptions(backend=HOST)), c.byref(device)))
need(lib.trp_actor_create(device, c.byref(ActorOptions(kind=b"blas")), c.byref(blas)))
x, y = Handle(), Handle()
COUNT = 1000
for buffer in (x, y):
    need(lib.trp_buffer_create(device, 4 * COUNT, c.byref(buffer)))
values = (c.c_float * COUNT)(*range(COUNT))
wait(lib.trp_write, device, x, 0, values, 4 * COUNT)
wait(lib.trp_fill, device, y, 0, 4 * COUNT, 0x3F800000, 4)  # 1.0


class Blas1(c.Structure):  # trp_blas1_request
    _fields_ = [("header", Request), ("type", c.c_int), ("n", c.c_int64), ("alpha", Scalar), ("c", Scalar),
                ("s", Scalar), ("x", Handle), ("y", Handle), ("scalars", Handle), ("result", Handle),
                ("offsets", c.c_uint64 * 4), ("incx", c.c_int64), ("incy", c.c_int64), ("value", c.c_void_p)]


# y = alpha x + y, by the exported wrapper, which fills in operation and size.
wait(lib.trp_axpy, blas, c.byref(Blas1(type=F32, n=COUNT, alpha=half, x=x, y=y)))
wait(lib.trp_read, device, y, 0, values, 4 * COUNT)
assert list(values) == [0.5 * i + 1 for i in range(COUNT)]

assert lib.trp_axpy(blas, c.byref(Blas1(type=F32, n=-1, x=x, y=y)), None) == 1
assert b"n" in lib.trp_error_message()
lib.trp_actor_destroy(blas)
lib.trp_device_close(device)
need(lib.trp_system_destroy(system))
