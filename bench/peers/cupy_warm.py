#!/usr/bin/env python3
"""Warm starts with CuPy's RawModule, beside those of `troupe bench jit --only warm`.

Each sample is a process of its own with CuPy's disk cache warm: the kernel of the bench, from the
request to the end of its first launch. Shown without and with the import of CuPy and the making of
the context, and what cuModuleLoadData and the first launch of the same image take in such a process.

    python3 bench/peers/cupy_warm.py [--samples 60] [--json FILE]

Needs a GPU, and CuPy for its CUDA (pip install cupy-cuda13x).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

STEPS = 1500
SOURCE = f"""extern "C" __global__ void warm(float *out)
{{
    float x = threadIdx.x + 0u, y = blockIdx.x;
    if (!out)
        return;
#pragma unroll
    for (int i = 0; i < {STEPS}; i++) {{
        x = x * y + (float)i;
        y = y * x - (float)(i * 7 % 1000);
    }}
    out[threadIdx.x] = x + y;
}}
"""


def sample():
    """What one process measures, in seconds."""
    begun = time.perf_counter()
    import cupy

    cupy.cuda.Device().use()
    cupy.cuda.runtime.free(0)  # makes the context
    nothing = cupy.zeros(1, dtype=cupy.uint8)  # and what CuPy needs for any array
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        ready = time.perf_counter()
        module = cupy.RawModule(code=SOURCE, backend="nvrtc")
        kernel = module.get_function("warm")
        kernel((1,), (32,), (cupy.uint64(0),))
        stream.synchronize()
        done = time.perf_counter()
    del nothing
    return {"warm": done - ready, "with import": done - begun}


def sample_raw(path):
    """The load and the first launch of an image alone, likewise."""
    import cupy

    with open(path, "rb") as file:
        image = file.read()
    cupy.cuda.runtime.free(0)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        ready = time.perf_counter()
        module = cupy.cuda.function.Module()
        module.load(image)
        kernel = module.get_function("warm")
        kernel((1,), (32,), (cupy.uint64(0),))
        stream.synchronize()
        return {"raw": time.perf_counter() - ready}


def compile_image(path):
    """The image that the raw samples load, made by NVRTC for this GPU."""
    from cupy.cuda import compiler

    compiled = compiler.compile_using_nvrtc(SOURCE, ())
    with open(path, "wb") as file:
        file.write(compiled[0] if isinstance(compiled, tuple) else compiled)
    return {}


def run(arguments):
    out = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def main():
    parser = argparse.ArgumentParser(description="Warm starts with CuPy's RawModule.")
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", choices=("warm", "raw", "image"), help=argparse.SUPPRESS)
    parser.add_argument("--image", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        functions = {"warm": sample, "raw": lambda: sample_raw(chosen.image), "image": lambda: compile_image(chosen.image)}
        print(json.dumps(functions[chosen.one]()))
        return 0
    if chosen.samples < 1:
        parser.error("--samples: expected at least 1")
    rows = {"warm": [], "with import": [], "raw": []}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUPY_CACHE_DIR"] = os.path.join(folder, "cache")
        image = os.path.join(folder, "image")
        run(["--one", "image", "--image", image])
        run(["--one", "warm"])  # fills the cache
        for _ in range(chosen.samples):
            for arguments in (["--one", "warm"], ["--one", "raw", "--image", image]):
                for name, seconds in run(arguments).items():
                    rows[name].append(seconds)
    print(f"{'CuPy, ms':<24}{'p50':>10}{'p90':>10}{'p99':>10}")
    for name, values in rows.items():
        print(f"{name:<24}" + "".join(f"{1e3 * quantile(values, q):>10.3f}" for q in (0.5, 0.9, 0.99)))
    beyond = [v - quantile(rows["raw"], 0.5) for v in rows["warm"]]
    print(f"{'warm, beyond raw':<24}" + "".join(f"{1e3 * quantile(beyond, q):>10.3f}" for q in (0.5, 0.9, 0.99)))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({"unit": "s", "samples": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
