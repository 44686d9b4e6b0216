"""The library from Python by cffi, which reads declarations.h as it is: every function is exported, every struct
lies as the C compiler has it, and work comes out right.

Usage: cffi_test.py LIBTROUPE_SO DECLARATIONS_H CC INCLUDE_FOLDER...
"""

import os
import re
import subprocess
import sys
import tempfile

try:
    import cffi
except ImportError:
    print("no cffi for this Python (Debian: python3-cffi): skipped")
    sys.exit(77)

library, declarations, compiler, *includes = sys.argv[1:]
text = open(declarations).read()
ffi = cffi.FFI()
ffi.cdef(text)
lib = ffi.dlopen(library)


def functions():
    """Names before "(" outside of braces."""
    outside, depth = [], 0
    for c in re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.S | re.M):
        depth += (c == "{") - (c == "}")
        outside.append(c if depth == 0 else "")
    return set(re.findall(r"\b(trp_\w+)\s*\(", "".join(outside)))


def check_functions():
    names = functions()
    assert {"trp_gemm", "trp_axpy", "trp_real", "trp_io_load", "trp_dnn_graph", "trp_await"} <= names
    for name in names:
        getattr(lib, name)  # raises where the library has no such symbol
    print(f"{len(names)} functions")


def check_layouts():
    """Sizes and offsets that cffi makes of the declarations against those of the C headers."""
    lines, mine = [], []
    for name in ffi.list_types()[0]:
        kind = ffi.typeof(name)
        if kind.kind != "struct" or kind.fields is None:
            continue
        mine.append(f"{name} {ffi.sizeof(name)}")
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field, place in kind.fields:
            mine.append(f"{name}.{field} {place.offset}")
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
    values = []
    for name in re.findall(r"^#define (TRP_\w+)", text, flags=re.M) + re.findall(r"\bTRP_[A-Z0-9_]+\b(?=\s*[,=}\n])", text):
        if name not in values:
            values.append(name)
            mine.append(f"{name} {getattr(lib, name)}")
            lines.append(f'printf("{name} %lld\\n", (long long)({name}));')
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "a.c"), os.path.join(folder, "a.out")
        with open(source, "w") as f:
            f.write("#include <troupe/troupe.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n")
        subprocess.run([compiler, "-std=c17", *(f"-I{folder}" for folder in includes), source, "-o", program, "-Wl,--unresolved-symbols=ignore-all"], check=True)
        theirs = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[:-1]
    different = [pair for pair in zip(mine, theirs) if pair[0] != pair[1]]
    assert len(mine) == len(theirs) and not different, different[:5]
    assert len(mine) > 800, len(mine)
    print(f"{len(mine)} sizes, offsets and constants")


def need(status):
    assert status == lib.TRP_OK, ffi.string(lib.trp_error_message())


def wait(send, *arguments):
    done = ffi.new("trp_completion *")
    need(send(*arguments, done))
    need(lib.trp_await(done.future, lib.TRP_FOREVER, ffi.NULL))


def check_work():
    system, device, blas = ffi.new("trp_system **"), ffi.new("trp_device **"), ffi.new("trp_actor **")
    need(lib.trp_system_create(ffi.NULL, system))
    need(lib.trp_device_open(system[0], ffi.new("trp_device_options *", {"backend": lib.TRP_BACKEND_HOST}), device))
    kind = ffi.new("char[]", b"blas")
    need(lib.trp_actor_create(device[0], ffi.new("trp_actor_options *", {"kind": kind}), blas))
    m, n, k = 3, 4, 5
    a, b = [float(i * 7 % 11) for i in range(m * k)], [float(i * 5 % 13 - 6) for i in range(k * n)]
    buffers = []
    for values in (a, b, [0.0] * (m * n)):
        memory, made = ffi.new("double[]", values), ffi.new("trp_buffer *")
        need(lib.trp_buffer_create(device[0], ffi.sizeof(memory), made))
        wait(lib.trp_write, device[0], made[0], 0, memory, ffi.sizeof(memory))
        buffers.append(made[0])
    request = ffi.new("trp_gemm_request *", {"type": lib.TRP_F64, "order": lib.TRP_ROW_MAJOR, "m": m, "n": n, "k": k,
                                             "alpha": lib.trp_real(2), "a": buffers[0], "b": buffers[1],
                                             "c": buffers[2]})
    wait(lib.trp_gemm, blas[0], request)
    c = ffi.new("double[]", m * n)
    wait(lib.trp_read, device[0], buffers[2], 0, c, ffi.sizeof(c))
    expected = [2 * sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]
    assert list(c) == expected, (list(c), expected)

    # A result in memory of the program, by a wrapper made by a macro.
    value = ffi.new("double *")
    wait(lib.trp_dot, blas[0], ffi.new("trp_blas1_request *", {"type": lib.TRP_F64, "n": k, "x": buffers[0],
                                                               "y": buffers[0], "value": value}))
    assert value[0] == sum(x * x for x in a[:k])

    # An error has its words.
    request.m = -1
    assert lib.trp_gemm(blas[0], request, ffi.NULL) == lib.TRP_E_ARGUMENT
    assert b"m" in ffi.string(lib.trp_error_message())

    # A file, there and back.
    with tempfile.TemporaryDirectory() as folder:
        path, name = os.path.join(folder, "c.safetensors").encode(), ffi.new("char[]", b"c")
        item = ffi.new("trp_io_item *", {"array": {"name": name, "type": lib.TRP_F64, "rank": 2, "dim": [m, n]},
                                         "buffer": buffers[2]})
        need(lib.trp_io_save(path, item, 1, ffi.new("trp_io_save_options *", {"device": device[0]})))
        file, loaded, offsets = ffi.new("trp_io_file **"), ffi.new("trp_buffer *"), ffi.new("uint64_t[1]")
        calls = []

        @ffi.callback("bool(void *, uint64_t, uint64_t)")
        def progress(_, done, total):
            calls.append((done, total))
            return True

        need(lib.trp_io_open(path, file))
        need(lib.trp_io_load_sealed(file[0], device[0], ffi.NULL, 1, ffi.new("trp_io_options *", {"progress": progress}),
                                    loaded, offsets))
        assert calls[-1] == (m * n * 8, m * n * 8), calls
        c[0] = -1
        wait(lib.trp_read, device[0], loaded[0], offsets[0], c, ffi.sizeof(c))
        assert list(c) == expected
        lib.trp_io_close(file[0])
    lib.trp_actor_destroy(blas[0])
    lib.trp_device_close(device[0])
    need(lib.trp_system_destroy(system[0]))


check_functions()
check_layouts()
check_work()
