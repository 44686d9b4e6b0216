#!/usr/bin/env python3
"""Runs the kernels compiled by scripts/cutlass_sweep.py --out on a GPU, by abi.h, and compares each
result with numpy's in float64. Products only; needs numpy and a driver.

Usage: cutlass_try.py [--time N] FOLDER [NAME...]     NAME...: names of rows or their beginnings;
none: all rows. With --time it prints the speed of a product of N x N x N and compares nothing.
"""

import ctypes as c
import re
import struct
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cutlass_sweep import INFO, rows  # noqa: E402

u64, i64, i32, f64 = c.c_uint64, c.c_int64, c.c_int32, c.c_double


class Args(c.Structure):
    _fields_ = ([(n, u64) for n in "a b c d".split()]
                + [(n, i64) for n in "lda ldb ldc ldd batch_a batch_b batch_c batch_d".split()]
                + [(n, i32) for n in "m n k l".split()]
                + [(n, f64) for n in "alpha beta".split()]
                + [(n, u64) for n in "alpha_ptr beta_ptr workspace workspace_bytes".split()]
                + [(n, i32) for n in ("sm_count blocks_per_sm max_active_clusters swizzle raster"
                                      " splits stream_k reduction").split()]
                + [("group_room", u64 * 4), ("grouping", i32), ("group_turned", i32),
                   ("group_c", i32), ("group_reserved", i32 * 5)]
                + [("conv_strides", i64 * 8), ("conv", i32 * 24)]
                + [("factors", u64 * 3), ("group", i32 * 2), ("slot", u64 * 48)])


assert c.sizeof(Args) == 800 and Args.slot.offset == 416, "abi.h has changed"
ALIGN, ROOM = 128, 128 + 4096
TILED = 0x64656c6974707274

# The numpy type of an element, and its conversions from and to float32.
TYPES = {"cutlass::half_t": np.float16, "float": np.float32, "cutlass::tfloat32_t": np.float32,
         "double": np.float64, "int8_t": np.int8, "int32_t": np.int32, "cutlass::bfloat16_t": None,
         "cutlass::float_e4m3_t": "e4m3"}


def e4m3_values():
    values = []
    for bits in range(256):
        exponent, fraction = bits >> 3 & 15, bits & 7
        value = fraction / 512 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
        values.append(np.nan if bits & 127 == 127 else -value if bits >> 7 else value)
    return np.array(values)


class Driver:
    def __init__(self):
        self.lib = c.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = c.c_int(), c.c_void_p()
        self("cuDeviceGet", c.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", c.byref(context), device)
        self("cuCtxSetCurrent", context)
        self.sms, self.version = c.c_int(), c.c_int()
        self("cuDeviceGetAttribute", c.byref(self.sms), 16, device)
        self("cuDriverGetVersion", c.byref(self.version))

    def __call__(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code:
            text = c.c_char_p()
            self.lib.cuGetErrorName(code, c.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode()}")

    def alloc(self, size, fill=0):
        address = u64()
        self("cuMemAlloc_v2", c.byref(address), c.c_size_t(max(size, 16)))
        self("cuMemsetD8_v2", address, c.c_ubyte(fill), c.c_size_t(max(size, 16)))
        return address.value

    def put(self, array):
        array = np.ascontiguousarray(array)
        address = self.alloc(array.nbytes)
        self("cuMemcpyHtoD_v2", u64(address), c.c_void_p(array.ctypes.data), c.c_size_t(array.nbytes))
        return address

    def get(self, address, size):
        out = np.empty(size, np.uint8)
        self("cuMemcpyDtoH_v2", c.c_void_p(out.ctypes.data), u64(address), c.c_size_t(size))
        return out

    def launch(self, function, grid, block, cluster, shared, pointers, wait=True):
        class Attribute(c.Structure):
            _fields_ = [("id", c.c_uint), ("pad", c.c_uint), ("value", c.c_uint * 16)]

        class Config(c.Structure):
            _fields_ = [("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint),
                        ("stream", c.c_void_p), ("attributes", c.POINTER(Attribute)),
                        ("count", c.c_uint)]

        attribute = Attribute(4, 0, (c.c_uint * 16)(*cluster))
        clustered = cluster[0] * cluster[1] * cluster[2] > 1
        config = Config((c.c_uint * 3)(*grid), (c.c_uint * 3)(*block), shared, None,
                        c.pointer(attribute), int(clustered))
        array = (c.c_void_p * len(pointers))(*[c.addressof(p) for p in pointers])
        self("cuLaunchKernelEx", c.byref(config), function, array, None)
        if wait:
            self("cuCtxSynchronize")

    def encode(self, params):
        """Replaces each recorded map of the builder by a tensor map, in place."""
        count = 0
        for at in range(0, len(params) - 127, 64):
            tag, address = struct.unpack_from("<QQ", params, at)
            if tag != TILED:
                continue
            strides = struct.unpack_from("<4Q", params, at + 16)
            sizes = [s + 1 for s in struct.unpack_from("<5I", params, at + 48)]
            box = struct.unpack_from("<5H", params, at + 68)
            kind, rank = struct.unpack_from("<BB", params, at + 78)
            step = struct.unpack_from("<5B", params, at + 80)
            interleave, swizzle, l2, fill = struct.unpack_from("<4B", params, at + 85)
            room = (c.c_ubyte * 256)()
            aligned = (c.addressof(room) + 63) // 64 * 64
            self("cuTensorMapEncodeTiled", c.c_void_p(aligned), kind, rank, u64(address),
                 (u64 * 5)(*sizes), (u64 * 4)(*strides), (c.c_uint32 * 5)(*box),
                 (c.c_uint32 * 5)(*step), interleave, swizzle, l2, fill)
            tensor_map = bytearray(c.string_at(aligned, 128))
            total = strides[rank - 2] * sizes[rank - 1] if rank > 1 else 0
            if self.version.value <= 13010 and total < 131072:
                word, = struct.unpack_from("<Q", tensor_map, 8)
                struct.pack_into("<Q", tensor_map, 8, word & ~(1 << 21))
            params[at:at + 128] = tensor_map
            count += 1
        return count


def setting(settings, name, default):
    return next((s.partition("=")[2] for s in settings if s.startswith(name + "=")), default)


def make(rng, kind, shape):
    """Returns random elements as an array of bytes, and their values."""
    if kind in ("int8_t",):
        bits = rng.integers(-8, 8, shape).astype(np.int8)
        return bits, bits.astype(np.float64)
    if kind == "cutlass::float_e4m3_t":
        table = e4m3_values()
        bits = rng.integers(0, 0x48, shape).astype(np.uint8) | (
            rng.integers(0, 2, shape).astype(np.uint8) << 7)
        return bits, table[bits]
    values = rng.standard_normal(shape).astype(np.float32)
    if kind == "cutlass::bfloat16_t":
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    array = values.astype(TYPES[kind])
    return array, array.astype(np.float64)


def read(kind, raw, shape):
    if kind == "cutlass::bfloat16_t":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return raw.view(TYPES[kind]).reshape(shape)


def matrix(rng, driver, kind, m, n, row):
    """Returns a matrix on the device: address, leading dimension, values as m by n."""
    bits, values = make(rng, kind, (m, n) if row else (n, m))
    return driver.put(bits), bits.shape[1], values if row else values.T


def fast(driver, kernel, info, settings, a, b, d, n, args, builder):
    """Returns the speed of a large product in TFLOP/s: the best of five times ten launches."""
    rng = np.random.default_rng(1)
    for field, kind in (("a", a), ("b", b), ("c", d), ("d", d)):
        bits, _ = make(rng, "int8_t" if kind == "int32_t" else kind, (512, 512))
        setattr(args, field, driver.put(np.resize(bits, (n, n))))
    args.m = args.n = args.k = args.lda = args.ldb = args.ldc = args.ldd = n
    args.slot[1] = args.c
    built, status = build(driver, args, builder)
    if status != 1:
        return f"builder: status {status}"
    _, _, size, maps = struct.unpack_from("<4I", built.tobytes())
    grid = struct.unpack_from("<3I", built.tobytes(), 16)
    params = bytearray(built[ALIGN:ALIGN + size].tobytes())
    driver.encode(params)
    parameter, best = (c.c_ubyte * len(params)).from_buffer(params), 1e9
    for _ in range(6):
        begin = time.perf_counter()
        for _ in range(10):
            driver.launch(kernel, grid, (info["threads"], 1, 1),
                          (info["cm"], info["cn"], info["ck"]), info["shared"], [parameter], False)
        driver("cuCtxSynchronize")
        best = min(best, (time.perf_counter() - begin) / 10)
    return f"ok: {2 * n**3 / best / 1e12:.1f} TFLOP/s, {n} x {n} x {n}, grid {grid}"


def build(driver, args, builder):
    """Returns the output of the builder, with the workspace that it requests."""
    for _ in range(2):
        out = driver.alloc(ROOM)
        driver.launch(builder, (1, 1, 1), (1, 1, 1), (1, 1, 1), 0, [args, u64(out)])
        built = driver.get(out, ROOM)
        _, status = struct.unpack_from("<2I", built.tobytes())
        needed, zero = struct.unpack_from("<2Q", built.tobytes(), 32)
        if status != 2:
            break
        args.workspace, args.workspace_bytes = driver.alloc(needed, 0xff), needed
    if status == 1 and args.workspace and zero:
        driver("cuMemsetD8_v2", u64(args.workspace), c.c_ubyte(0), c.c_size_t(zero))
    return built, status


def run(driver, cubin, name, template, settings, large):
    image = cubin.read_bytes()
    module, kernel, builder = c.c_void_p(), c.c_void_p(), c.c_void_p()
    driver("cuModuleLoadData", c.byref(module), image)
    driver("cuModuleGetFunction", c.byref(kernel), module, b"trp_cutlass_kernel")
    driver("cuModuleGetFunction", c.byref(builder), module, b"trp_cutlass_build")
    at, size = u64(), c.c_size_t()
    driver("cuModuleGetGlobal_v2", c.byref(at), c.byref(size), module, b"trp_cutlass_info")
    info = dict(zip(INFO, driver.get(at.value, size.value).view(np.uint32).tolist()))
    if info["shared"] > 48 << 10:
        driver("cuFuncSetAttribute", kernel, 8, info["shared"])

    a = setting(settings, "TRP_A", "cutlass::bfloat16_t")
    b, d = setting(settings, "TRP_B", a), setting(settings, "TRP_D", None)
    if d is None:
        d = "cutlass::bfloat16_t" if "90" in template else a
    row = [int(setting(settings, f"TRP_{x}_ROW", e)) for x, e in zip("ABD", "101")]
    grouped, tree = template.startswith("grouped"), any("TRP_FUSION=" in s for s in settings)
    reads_c = setting(settings, "TRP_C", "") != "void"
    rng = np.random.default_rng(seed := np.random.SeedSequence().entropy % 2**32)
    alpha, beta = (2, 3) if d == "int32_t" else (1.25, -0.5)
    if not reads_c:
        beta = 0
    shapes = [(264, 520, 144), (128, 264, 272), (16, 1032, 80)] if grouped else [(520, 392, 336)]
    group = []
    for m, n, k in shapes:
        pa, lda, va = matrix(rng, driver, a, m, k, row[0])
        pb, ldb, vb = matrix(rng, driver, b, k, n, row[1])
        pc, ldc, vc = matrix(rng, driver, "int8_t" if d == "int32_t" else d, m, n, row[2])
        if d == "int32_t":
            pc = driver.put((vc if row[2] else vc.T).astype(np.int32))
        bias = rng.standard_normal(n).astype(np.float32)
        if tree:
            want = np.maximum(alpha * (va @ vb) + bias, 0)
        else:
            want = alpha * (va @ vb) + beta * vc
        bytes_d = m * n * (2 if TYPES[d] is None else np.dtype(TYPES[d]).itemsize)
        group.append((m, n, k, pa, lda, pb, ldb, pc, ldc, driver.alloc(bytes_d, 0xff), bytes_d, want,
                      bias))

    args = Args(alpha=alpha, beta=beta, l=1, sm_count=driver.sms.value, blocks_per_sm=1, swizzle=1)
    m, n, k, pa, lda, pb, ldb, pc, ldc, pd, _, _, bias = group[0]
    table = u64()
    if grouped:
        args.l, args.grouping, args.group_c = len(group), 1, 1
        args.m = args.n = args.k = 1 << 20
        args.group_room = (u64 * 4)(*[1 << 46] * 4)
        places = np.array([[g[i] for i in (3, 5, 7, 9)] for g in group], np.uint64)
        base = places.min(axis=0)
        args.a, args.b, args.c, args.d = base.tolist()
        width = [2 if TYPES[x] is None or x == "e4m3" else np.dtype(TYPES[x]).itemsize
                 for x in (a, b, d, d)]
        table = u64(driver.put(np.array([[*g[:3], *((p - base) // width), g[4], g[6], g[8], g[8], 0]
                                         for g, p in zip(group, places)], np.int64)))
    else:
        args.a, args.b, args.c, args.d, args.m, args.n, args.k = pa, pb, pc, pd, m, n, k
        args.lda, args.ldb, args.ldc, args.ldd = lda, ldb, ldc, ldc
    args.slot[0] = struct.unpack("<I", struct.pack("<f", alpha))[0]
    args.slot[1] = driver.put(bias)

    if large:
        return fast(driver, kernel, info, settings, a, b, d, large, args, builder)
    built, status = build(driver, args, builder)
    if status != 1:
        return f"builder: status {status}"
    _, _, size, maps = struct.unpack_from("<4I", built.tobytes())
    grid = struct.unpack_from("<3I", built.tobytes(), 16)
    params = bytearray(built[ALIGN:ALIGN + size].tobytes())
    if driver.encode(params) != maps:
        return f"{maps} maps were noted, others found"
    parameter = (c.c_ubyte * len(params)).from_buffer(params)
    cluster = (info["cm"], info["cn"], info["ck"])
    if grouped:
        prepare = c.c_void_p()
        driver("cuModuleGetFunction", c.byref(prepare), module, b"trp_cutlass_prepare")
        driver.launch(prepare, (1, 1, 1), (info["prepare"], 1, 1), (1, 1, 1), 0, [args, table])
    driver.launch(kernel, grid, (info["threads"], 1, 1), cluster, info["shared"], [parameter])
    worst = 0.0
    for m, n, k, *_, pd, bytes_d, want, _ in group:
        got = read(d, driver.get(pd, bytes_d), (m, n) if row[2] else (n, m)).astype(np.float64)
        got = got if row[2] else got.T
        worst = max(worst, np.linalg.norm(got - want) / np.linalg.norm(want))
    bound = {"double": 1e-12, "int32_t": 0}.get(d, 1e-5 if (a, d) == ("float", "float") else 6e-3)
    if "tfloat32" in a or "16,8,8" in str(settings) or (a == "float" and "90" in template):
        bound = 2e-3
    good = worst <= bound
    return f"{'ok' if good else 'WRONG'}: relative error {worst:.2e}, grid {grid}, {maps} maps, seed {seed}"


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    size = int(sys.argv.pop(2)) if sys.argv[1] == "--time" else 0
    if size:
        sys.argv.pop(1)
    driver, bad = Driver(), 0
    for name, _, template, settings in rows(Path(__file__).parent / "cutlass_rows.txt"):
        cubin = Path(sys.argv[1]) / f"{name}.cubin"
        names = sys.argv[2:]
        if not cubin.is_file() or re.match("conv", template):
            continue
        if names and not any(name.startswith(n) for n in names):
            continue
        try:
            what = run(driver, cubin, name, template, settings, size)
        except RuntimeError as error:
            # The driver repeats a context's first error for ever, so the other kernels need another process.
            print(f"{name:32} FAILED {error}", flush=True)
            return 1
        bad += not what.startswith("ok")
        print(f"{name:32} {what}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
