"""numpy.fft and scipy.fft on the fft actor: stands in for what their functions call once they have checked and
converted their arguments. What the actor has no type for (long double) stays theirs.
"""

import functools
import threading

import cffi
import numpy as np

ffi = cffi.FFI()
NORMS = {False: ("BACKWARD", "ORTHO", "FORWARD"), True: ("FORWARD", "ORTHO", "BACKWARD")}


class Actor:
    """Transforms arrays where they lie: what their strides span is written to a buffer whole, and read back."""

    def __init__(self, library, declarations, backend):
        with open(declarations) as text:
            ffi.cdef(text.read())
        self.lib = ffi.dlopen(library)
        self.lock = threading.Lock()
        self.sent = self.left = 0
        self.buffers = [None, None]
        system, device, actor = ffi.new("trp_system **"), ffi.new("trp_device **"), ffi.new("trp_actor **")
        kind = ffi.new("char[]", b"fft")
        where = self.lib.TRP_BACKEND_CUDA if backend == "cuda" else self.lib.TRP_BACKEND_HOST
        self.need(self.lib.trp_system_create(ffi.NULL, system))
        self.need(self.lib.trp_device_open(system[0], ffi.new("trp_device_options *", {"backend": where}), device))
        self.need(self.lib.trp_actor_create(device[0], ffi.new("trp_actor_options *", {"kind": kind}), actor))
        self.device, self.actor = device[0], actor[0]
        self.types = {np.dtype(t): getattr(self.lib, name) for t, name in
                      (("f4", "TRP_F32"), ("f8", "TRP_F64"), ("c8", "TRP_C64"), ("c16", "TRP_C128"))}

    def need(self, status):
        if status != self.lib.TRP_OK:
            error = ValueError if status == self.lib.TRP_E_ARGUMENT else RuntimeError
            raise error(ffi.string(self.lib.trp_error_message()).decode())

    def wait(self, send, *arguments):
        done = ffi.new("trp_completion *")
        self.need(send(*arguments, done))
        self.need(self.lib.trp_await(done.future, self.lib.TRP_FOREVER, ffi.NULL))

    def buffer(self, number, size):
        """A buffer of at least that many bytes, kept for the next transform."""
        if self.buffers[number] is None or self.buffers[number][1] < size:
            if self.buffers[number] is not None:
                self.need(self.lib.trp_buffer_free(self.device, self.buffers[number][0]))
            made = ffi.new("trp_buffer *")
            self.need(self.lib.trp_buffer_create(self.device, max(size, 1 << 16), made))
            self.buffers[number] = made[0], max(size, 1 << 16)
        return self.buffers[number][0]

    def put(self, number, a):
        """Writes all bytes from the first element of an array to the last; its tensor, and what is to be read back."""
        low, high = np.lib.array_utils.byte_bounds(a) if a.size else (0, 0)
        buffer = self.buffer(number, high - low)
        memory = ffi.cast("char *", low)
        if high > low:
            self.wait(self.lib.trp_write, self.device, buffer, 0, memory, high - low)
        tensor = {"buffer": buffer, "offset": a.ctypes.data - low if a.size else 0, "type": self.types[a.dtype],
                  "dim": a.shape, "stride": [s // a.itemsize for s in a.strides] if a.size else []}
        return tensor, (buffer, memory, high - low)

    def transform(self, kind, x, y, axes, n, inverse, norm, orthogonalize="BY_NORM"):
        """x to y, which may be x."""
        request = {"kind": getattr(self.lib, "TRP_FFT_" + kind), "inverse": inverse, "rank": x.ndim,
                   "norm": getattr(self.lib, "TRP_FFT_" + norm), "axis_count": len(axes), "axis": axes, "n": n,
                   "orthogonalize": getattr(self.lib, "TRP_FFT_ORTHOGONALIZE_" + orthogonalize)}
        with self.lock:
            request["x"], back = self.put(0, x)
            if y is x:
                request["y"] = request["x"]
            else:
                request["y"], back = self.put(1, y)
            self.wait(self.lib.trp_fft, self.actor, ffi.new("trp_fft_request *", request))
            buffer, memory, size = back
            if size:
                self.wait(self.lib.trp_read, self.device, buffer, 0, memory, size)
            self.sent += 1
        return y


def readable(x, dtype):
    """x in a type of the actor, and where strides count elements and are not all 0, which would mean packed."""
    x = np.asarray(x).astype(dtype, copy=False)
    odd = any(s % x.itemsize for s in x.strides) or (x.size > 1 and not any(x.strides)) or not x.flags.aligned
    return x.copy() if odd else x


def is_long(a):
    return np.result_type(a.dtype, 1j) == np.clongdouble != np.complex128


def hook_numpy(actor):
    """Every function of numpy.fft calls _raw_fft, for one axis after the other."""
    module = np.fft._pocketfft
    theirs = module._raw_fft

    def raw_fft(a, n, axis, is_real, is_forward, norm, out=None):
        if is_long(a) or isinstance(out, tuple) or (out is not None and not isinstance(out, np.ndarray)):
            actor.left += 1
            return theirs(a, n, axis, is_real, is_forward, norm, out)
        if is_real and is_forward and a.dtype.kind == "c":
            raise TypeError("a transform of real numbers got complex ones")
        axis = np.lib.array_utils.normalize_axis_index(axis, a.ndim)
        kind = "C2C" if not is_real else "R2C" if is_forward else "C2R"
        norms = {None: "BACKWARD", "backward": "BACKWARD", "ortho": "ORTHO", "forward": "FORWARD"}
        if norm not in norms:
            raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
        wide = np.result_type(a.dtype, 1j)
        real = np.dtype("f4" if wide == np.complex64 else "f8")
        n = a.shape[axis] if n is None else n
        there = (n // 2 + 1 if kind == "R2C" else n,) if n > 0 else (0,)
        shape = a.shape[:axis] + there + a.shape[axis + 1:]
        if out is not None and out.shape != shape:
            raise ValueError("output array has wrong shape.")
        x = readable(a, real if kind == "R2C" else wide)
        to = real if kind == "C2R" else wide
        y = out if out is not None and out.dtype == to else np.empty_like(a, shape=shape, dtype=to)
        if y is not x and np.may_share_memory(x, y):
            same = x.ctypes.data == y.ctypes.data and x.shape == y.shape and x.strides == y.strides
            x = y if same and kind == "C2C" else x.copy()
        try:
            actor.transform(kind, x, y, [axis], [int(n) if n else -1], not is_forward, norms[norm])
        except ValueError as error:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified." if n < 1 else str(error)) from error
        return y if out is None or out is y else np.positive(y, out=out)

    module._raw_fft = raw_fft


def hook_scipy(actor):
    """Every function of scipy.fft that transforms calls one of three in pypocketfft, with all axes at once."""
    from scipy.fft._pocketfft import pypocketfft as module

    def hook(name):
        theirs = getattr(module, name)

        def transform(a, axes=None, *rest, **options):
            names = ("lastsize",) * (name == "c2r") + ("forward", "inorm", "out", "nthreads")
            given = dict(zip(names, rest), **options)
            axes = list(range(a.ndim)) if axes is None else [int(k) for k in np.atleast_1d(axes)]
            if is_long(a):
                actor.left += 1
                return theirs(a, axes, *rest, **options)
            wide = np.dtype("c8" if np.result_type(a.dtype, 1j) == np.complex64 else "c16")
            real = np.dtype("f4" if wide == np.complex64 else "f8")
            forward, out, shape, n = given.get("forward", True), given.get("out"), list(a.shape), [0] * len(axes)
            x = readable(a, real if name == "r2c" else wide)
            if name == "r2c":
                shape[axes[-1]] = shape[axes[-1]] // 2 + 1
            elif name == "c2r":
                shape[axes[-1]] = n[-1] = given.get("lastsize") or 2 * (shape[axes[-1]] - 1)
            y = out if out is not None else np.empty(shape, real if name == "c2r" else wide)
            if out is not None and np.may_share_memory(x, out):
                x = out if x is a and x.strides == out.strides and name == "c2c" else x.copy()
            norm = NORMS[not forward][given.get("inorm", 0)]
            return actor.transform(name.upper(), x, y, axes, n, not forward, norm)

        setattr(module, name, transform)

    for name in ("c2c", "r2c", "c2r"):
        hook(name)


def hook_waves(actor):
    """The functions of scipy.fft for cosines and sines hold pypocketfft's dct and dst, with all axes at once."""
    import scipy.fft._pocketfft as package
    from scipy.fft._pocketfft import realtransforms as module

    def hook(name, theirs):
        def transform(a, type, axes=None, inorm=0, out=None, nthreads=None, ortho=None):
            axes = list(range(a.ndim)) if axes is None else [int(k) for k in np.atleast_1d(axes)]
            if is_long(a) or a.dtype.kind == "c":
                actor.left += 1
                return theirs(a, type, axes, inorm, out, nthreads, ortho)
            real = np.dtype("f4" if np.result_type(a.dtype, 1j) == np.complex64 else "f8")
            x = readable(a, real)
            y = out if out is not None else np.empty(a.shape, real)
            if out is not None and np.may_share_memory(x, out):
                x = out if x is a and x.strides == out.strides and x.ctypes.data == out.ctypes.data else x.copy()
            ends = "BY_NORM" if ortho is None else "ON" if ortho else "OFF"
            return actor.transform(f"{name.upper()}{type}", x, y, axes, [0] * len(axes), False,
                                   NORMS[False][inorm], ends)

        return transform

    for kind in ("dct", "dst"):
        for name in (kind, "i" + kind, kind + "n", "i" + kind + "n"):
            was = getattr(module, name)
            ours = functools.partial(was.func, was.args[0], hook(kind, was.args[1]))
            ours.__name__ = name
            setattr(module, name, ours)
            setattr(package, name, ours)
