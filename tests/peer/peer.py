#!/usr/bin/env python3
"""Compares Troupe with PyTorch in float64, on random layers and graphs.

    peer.py --runner build/dev/tests/peer/peer_runner [--cases 5000] [--seed N] [--backend host|cuda]
    peer.py --runner ... --case 123456789          one case again, by its seed; or several

Each case draws an operation, shapes, layouts, types and numbers, sends the request through peer_runner.c, computes
the same in PyTorch from the same rounded inputs, and compares element by element: what came must be what some
number within the tolerance is rounded to. The tolerance follows from the unit of the type that is computed in, the
number of terms of a sum and the sum of their sizes. Outputs are poisoned before, and bytes around and between
elements must stay as they were. Ends with 0 only if nothing was wrong, refused or, with --engines, run by a plain
kernel where engines.def does not have it.
"""

import argparse
import json
import os
import re
import sys
import time

import torch

import ops_images
import ops_moves
import ops_pointwise
import ops_products
import ops_rows
from case import Budget, Case
from runner import Runner

OPERATIONS = {
    "pointwise": (ops_pointwise.pointwise, 8),
    "gradient": (ops_pointwise.gradient, 3),
    "chain": (ops_pointwise.chain, 6),
    "conversion": (ops_pointwise.conversion, 3),
    "reduction": (ops_rows.reduction, 6),
    "softmax": (ops_rows.softmax, 4),
    "norm_training": (lambda c: ops_rows.norm_forward(c, True), 3),
    "norm_inference": (lambda c: ops_rows.norm_forward(c, False), 2),
    "norm_backward": (ops_rows.norm_backward, 3),
    "group_norm": (ops_rows.group_norm, 1),
    "convolution": (ops_images.convolution, 8),
    "pooling": (ops_images.pooling, 5),
    "matmul_graph": (ops_products.matmul_graph, 4),
    "matmul_actor": (ops_products.matmul_actor, 4),
    "attention": (ops_products.attention, 4),
    "transpose": (ops_moves.transpose, 1),
    "slice": (ops_moves.slices, 1),
    "concatenate": (ops_moves.concatenate, 1),
    "reshape": (ops_moves.reshape, 1),
    "copy": (ops_moves.copy, 1),
}
UNSUPPORTED, DEVICE_DOWN = 7, 10  # as in troupe/status.h


class Engines:
    """engines.def: where the plain kernels may run on a GPU."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.rows = re.findall(r'^TRP_PLAIN\("([^"]*)", "([^"]*)", "([^"]*)",', file.read(), flags=re.M)

    def allows(self, case):
        for node, types, condition in self.rows:
            if (node in case.nodes and (types == "*" or case.type in types.split()) and
                    (not condition or condition in case.conditions)):
                return True
        return False


class Row:
    def __init__(self):
        self.cases = self.wrong = self.refused = self.plain = 0
        self.worst = self.used = 0.0
        self.engines = {}


class Run:
    def __init__(self, options):
        self.options, self.rows, self.failures, self.too_large = options, {}, [], 0
        self.runner = Runner(options.runner, options.backend, options.map << 20, options.deadline)
        self.engines = Engines(os.path.join(os.path.dirname(os.path.abspath(__file__)), "engines.def"))
        self.names = [n for n in OPERATIONS if not options.only or n in options.only.split(",")]
        self.weights = [OPERATIONS[n][1] for n in self.names]

    def draw(self, seed):
        case = Case(seed, Budget(self.options.elements, self.options.products), self.options.extreme,
                    self.options.torch_device, self.options.backend)
        OPERATIONS[case.random.choices(self.names, self.weights)[0]][0](case)
        return case

    def one(self, seed):
        try:
            case = self.draw(seed)
            lines = case.sent = case.message(self.runner.map)
        except (MemoryError, torch.OutOfMemoryError):
            self.too_large += 1
            return
        if self.options.verbose:
            print("%d %s" % (seed, case.describe()), flush=True)
        self.runner.send(lines)
        answer = self.runner.receive()
        row = self.rows.setdefault((case.operation, case.type if "->" not in case.type else "any"), Row())
        row.cases += 1
        if answer is None:
            row.wrong += 1
            self.fail("died", case, "the program that runs the requests has ended")
        elif answer.status == UNSUPPORTED:
            row.refused += 1
            self.fail("refused", case, answer.message)
        elif answer.status:
            row.wrong += 1
            self.fail("failed", case, "status %d: %s" % (answer.status, answer.message))
            if answer.status == DEVICE_DOWN:
                self.runner.restart()
        else:
            self.compare(case, row, answer)

    def compare(self, case, row, answer):
        engine = re.sub(r"[_ ]?\d.*", "", answer.engine) if answer.engine.startswith("cublaslt") else answer.engine
        row.engines[engine or "-"] = row.engines.get(engine or "-", 0) + 1
        if answer.engine == "direct" and self.options.engines and not self.engines.allows(case):
            row.plain += 1
            self.fail("plain", case, "ran by the plain kernel, which engines.def does not have")
        results, beside = case.judge(self.runner.map)
        bad = ["%s: %d of %d, %s" % (t.name, f.wrong, f.count, f.first) for t, f in results if f.wrong]
        bad += ["%s: bytes beside its elements were written" % n for n in beside]
        row.worst = max([row.worst] + [f.worst for _, f in results])
        if self.options.verbose:
            print("    %s by %s in %d parts, %.2f of the tolerance" % (
                "wrong" if bad else "right", answer.engine or "-", answer.parts,
                max([0.0] + [f.used for _, f in results])), flush=True)
        if bad:
            row.wrong += 1
            self.fail("wrong", case, "; ".join(bad) + " (engine %s, %d parts)" % (answer.engine, answer.parts))
        else:
            row.used = max([row.used] + [f.used for _, f in results])

    def fail(self, how, case, text):
        failure = {"how": how, "seed": case.seed, "operation": case.operation, "type": case.type, "text": text,
                   "case": case.describe()}
        self.failures.append(failure)
        if len(self.failures) <= self.options.show:
            print("%s: --case %d  %s\n    %s" % (how.upper(), case.seed, case.describe(), text), flush=True)
            if self.options.verbose:
                print("    " + "\n    ".join(case.sent))

    def summary(self):
        print("%-28s %-7s %6s %6s %7s %6s %9s %6s  %s" % ("operation", "type", "cases", "wrong", "refused", "plain",
                                                        "worst", "used", "engines"))
        for (operation, kind), r in sorted(self.rows.items()):
            engines = ", ".join("%s %d" % e for e in sorted(r.engines.items(), key=lambda e: -e[1])[:4])
            print("%-28s %-7s %6d %6d %7d %6d %9.2g %6.2f  %s" % (operation, kind, r.cases, r.wrong, r.refused, r.plain,
                                                                r.worst, r.used, engines))
        total = Row()
        for r in self.rows.values():
            total.cases, total.wrong = total.cases + r.cases, total.wrong + r.wrong
            total.refused, total.plain = total.refused + r.refused, total.plain + r.plain
        print("%d cases, %d wrong, %d refused, %d by a plain kernel, %d too large for memory (seed %d, %s)" % (
            total.cases, total.wrong, total.refused, total.plain, self.too_large, self.options.seed,
            self.runner.device))
        return total

    def write(self, path):
        rows = [{"operation": k[0], "type": k[1], "cases": r.cases, "wrong": r.wrong, "refused": r.refused,
                 "plain": r.plain, "worst": r.worst, "used": r.used, "engines": r.engines}
                for k, r in sorted(self.rows.items())]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"seed": self.options.seed, "device": self.runner.device, "torch": torch.__version__,
                       "elements": self.options.elements, "rows": rows, "failures": self.failures}, file, indent=1)
            file.write("\n")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runner", required=True, help="the program peer_runner of a build")
    p.add_argument("--backend", default="host", choices=("host", "cuda"))
    p.add_argument("--torch-device", default="cpu", help="where PyTorch computes: cpu, cuda")
    p.add_argument("--cases", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=0, help="stop after so long; 0: when all cases are done")
    p.add_argument("--seed", type=int, default=None, help="of the first case; default: the clock")
    p.add_argument("--case", type=int, nargs="+", default=None, help="these cases alone, by their seeds")
    p.add_argument("--only", default="", help="operations, with commas between: " + ", ".join(OPERATIONS))
    p.add_argument("--elements", type=int, default=1 << 18, help="the most elements of a tensor")
    p.add_argument("--products", type=int, default=1 << 25, help="the most multiplications of a case")
    p.add_argument("--extreme", type=float, default=0.3, help="the share of operands with extreme numbers")
    p.add_argument("--map", type=int, default=0, help="MiB of memory that both programs share; 0: by --elements")
    p.add_argument("--deadline", type=int, default=120, help="seconds of a request")
    p.add_argument("--engines", action="store_true", help="fail where a plain kernel runs that may not")
    p.add_argument("--json", default="", help="a file for all of it")
    p.add_argument("--show", type=int, default=40, help="how many failures are printed")
    p.add_argument("--verbose", action="store_true", help="print each case, and the lines of those that fail")
    options = p.parse_args()
    options.seed = int(time.time() * 1000) % 10**9 if options.seed is None else options.seed
    options.map = options.map or max(64, options.elements * 8 * 12 >> 20)
    return options


def main():
    options = arguments()
    if options.torch_device.startswith("cuda"):
        torch.cuda.set_per_process_memory_fraction(0.5)  # the rest is Troupe's
    run, begun = Run(options), time.monotonic()
    seeds = options.case if options.case is not None else range(options.seed, options.seed + options.cases)
    print("seed %d, %s, PyTorch %s" % (options.seed, run.runner.device, torch.__version__), flush=True)
    with torch.no_grad():
        for seed in seeds:
            run.one(seed)
            if options.seconds and time.monotonic() - begun > options.seconds:
                break
    total = run.summary()
    if options.json:
        run.write(options.json)
    code = run.runner.close()
    return 0 if code == 0 and not (total.wrong or total.refused or total.plain) else 1


if __name__ == "__main__":
    sys.exit(main())
