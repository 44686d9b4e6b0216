#!/usr/bin/env python3
"""The problems of `troupe bench cutlass --only grouped` by PyTorch: torch._grouped_mm, a loop of mm,
and bmm, in TFLOP/s. Prints what of it there is; without PyTorch says so and ends well."""
import sys
import time

SHAPES = [(64, 128, 4096, 4096), (64, 64, 2048, 7168), (8, 4096, 4096, 7168)]


def measure(torch, run, flop):
    run()
    torch.cuda.synchronize()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 0.2:
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        count += 5
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(20):
            run()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / 20)
    return flop / best / 1e12


def main():
    try:
        import torch
    except ImportError:
        print("PyTorch is not there")
        return 0
    if not torch.cuda.is_available():
        print("PyTorch has no GPU")
        return 0
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}, TFLOP/s")
    for groups, m, n, k in SHAPES:
        flop = 2 * groups * m * n * k
        tokens = torch.randn(groups * m, k, device="cuda", dtype=torch.bfloat16)
        weights = torch.randn(groups, n, k, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        ends = torch.arange(m, groups * m + 1, m, device="cuda", dtype=torch.int32)
        batch, parts = tokens.view(groups, m, k), tokens.split(m)
        ways = {"loop of mm": lambda: [torch.mm(x, w) for x, w in zip(parts, weights)],
                "bmm": lambda: torch.bmm(batch, weights)}
        if hasattr(torch, "_grouped_mm"):
            ways["_grouped_mm"] = lambda: torch._grouped_mm(tokens, weights, offs=ends)
        for name, run in ways.items():
            try:
                print(f"{groups} x ({m} x {n} x {k})  {name:12} {measure(torch, run, flop):7.1f}")
            except RuntimeError as error:
                print(f"{groups} x ({m} x {n} x {k})  {name:12} {str(error).splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
