#!/usr/bin/env python3
"""Writes docs/cutlass-rows.md: the architectures and properties of each compiled kernel of the catalogue, and
whether its results were correct.

Usage: cutlass_table.py --troupe COMMAND [--device TEXT] [--out FILE] LOG...

LOG... are outputs of scripts/cutlass_sweep.py --troupe (compilation; no GPU), the lines "row ..." of
tests/gpu/cutlass_rows, and outputs of successful tests/gpu/cutlass_grouped and cutlass_conv (execution). The
last line of a row is used, for groups the worst. COMMAND's catalogue determines the rows. --device names the
device of the execution.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

HEAD = """# The catalogue, kernel by kernel

Made by `scripts/cutlass_table.py` of what two programs print: `scripts/cutlass_sweep.py --troupe COMMAND` compiles
kernels, without a GPU; `tests/gpu/cutlass_rows` compiles, loads and runs each that the device can have once, on a
problem as odd as the kernel takes, with random input and poisoned output, and compares with float64
(`TROUPE_TEST_SHARD=2/16` for the third sixteenth of them).

*Compiles for*: the architectures that it was compiled for. *Registers*: of the first of these, and spilled bytes if any.
*Of the bound*: the largest error, as a part of what is allowed: the rounding of D, and of the sum of all absolute values
1e-3 for tf32, 2.5e-4 for fp8 on 9.0 (2e-3 with less exact sums), 6e-3 for weights that are rounded with their factors,
3e-6 else; nothing for integers. Grouped products are tried by `tests/gpu/cutlass_grouped`, five ways of telling groups
each, convolutions by `tests/gpu/cutlass_conv` on small integers, whose sums have to be exact. "-": not tried.

"""
COLUMNS = ["kernel", "A, B", "tile", "compiles for", "registers", "ran", "problem, D", "of the bound"]


def catalogue(troupe):
    text = subprocess.run([troupe, "cutlass", "kernels"], capture_output=True, text=True, check=True).stdout
    head, *lines = text.splitlines()
    inputs, tile = head.index("A, B"), head.index("tile")
    for line in lines:
        yield line.split()[0], line[inputs:tile].strip(), line[tile:].split()[0]


def read(paths):
    """Returns for each row its architectures with the compiler's output, and its execution."""
    compiled, ran = {}, {}
    for path in paths:
        for line in path.read_text().splitlines():
            words = line.split()
            swept = re.match(r"(s\d+_\S+) +(sm_\d+a?) +(FAILED|[\d.]+ +[\d.]+ +[\d.]+ +\d+ +(\d+) +(\d+) )", line)
            if swept:
                kernel, arch, what, registers, spills = swept.groups()
                compiled.setdefault(kernel, {})[arch] = None if what == "FAILED" else (registers, spills)
            elif words[:1] == ["row"] and len(words) > 3:
                after = line.split(" s, ", 1)[-1]
                part, _, problem = after.partition(" of the bound, ")
                ran[words[1]] = (words[3], part, problem) if words[3] != "FAILED" else ("FAILED", "-", "-")
                if words[2].endswith("a") and words[3] != "FAILED":  # of one generation: compiled for it
                    compiled.setdefault(words[1], {}).setdefault(words[2], ("-", "0"))
            of_groups = re.search(r"(s(\d+)_grouped_\S+) +largest deviation ([\d.]+) of", line)
            of_conv = re.search(r"operation (\d) of (\w+), (\d+) x (\d+): (s(\d+)_conv_\S+)", line)
            if of_groups:
                kernel, family, part = of_groups.groups()
                part = max(float(part), float(ran.get(kernel, (0, 0))[1]))
                ran[kernel] = ("ok", f"{part:.3f}", "groups of all kinds")
            elif of_conv:
                kernel, family = of_conv[5], of_conv[6]
                what = ("fprop", "dgrad", "wgrad")[int(of_conv[1])]
                ran[kernel] = ("ok", "exact", f"{what} of {of_conv[2]}, {of_conv[3]}x{of_conv[4]}")
            if (of_groups or of_conv) and family == "90":
                compiled.setdefault(kernel, {}).setdefault("sm_90a", ("-", "0"))
    return compiled, ran


def order(arch):
    return int(re.search(r"\d+", arch)[0])


def cells(row, compiled, ran):
    kernel, inputs, tile = row
    archs = sorted(compiled.get(kernel, {}), key=order)
    said = ", ".join(a if compiled[kernel][a] else f"{a}: **fails**" for a in archs) or "-"
    first = next((compiled[kernel][a] for a in archs if compiled[kernel][a]), None)
    registers = "-" if not first else first[0] + (f", {first[1]} bytes spilled" if first[1] != "0" else "")
    how, part, problem = ran.get(kernel, ("-", "-", "-"))
    how = {"ok": "right", "-": "-"}.get(how, f"**{how.lower()}**")
    return [f"`{kernel}`", inputs, tile, said, registers, how, problem, part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path)
    parser.add_argument("logs", nargs="+", type=Path)
    args = parser.parse_args()
    compiled, ran = read(args.logs)
    rows = [cells(row, compiled, ran) for row in catalogue(args.troupe)]
    right = sum(row[5] == "right" for row in rows)
    lines = [f"{len(rows)} kernels; {sum(row[3] != '-' for row in rows)} compiled for what is said, {right} ran and were right"
             + (f" ({args.device})." if args.device else "."), ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    text = HEAD + "\n".join(lines) + "\n"
    if args.out:
        args.out.write_text(text)
    else:
        sys.stdout.write(text)
    return 1 if "**" in "".join("".join(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
