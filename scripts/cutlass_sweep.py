#!/usr/bin/env python3
"""Compiles kernels from the templates of src/actors/cutlass, one after the other, and prints for each
its time and properties. Needs NVRTC and nvJitLink, CUDA's headers and scripts/cutlass.sh, and no GPU.

Usage: cutlass_sweep.py [--arch ARCH] [--out FOLDER] [--cuda FOLDER] [--exact]
                        [--troupe COMMAND [--problem=OPTIONS]] [NAME...]

NAME... are rows of cutlass_rows.txt, whole (with --exact) or their beginnings; none: all of them. With --troupe they
are rows of the catalogue that the command has, for a problem that its options describe (those of
"troupe cutlass kernels": --problem="--epilogue 'relu(acc + bias[col])' --type-d f32"). With --out
the sources and cubins stay in FOLDER. CPU seconds are of all threads; elapsed ones only mean
something on an idle machine. Exit code 1 if a row does not compile, 77 if there is no compiler.
"""

import argparse
import ctypes
import re
import resource
import shlex
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACTOR = ROOT / "src/actors/cutlass"
OPTIONS = ["-std=c++17", "--device-as-default-execution-space", "-dlto", "-DNDEBUG", "-w",
           "--device-int128"]
LINK = ["-lto", "-kernels-used=trp_cutlass_kernel,trp_cutlass_build,trp_cutlass_prepare",
        "-variables-used=trp_cutlass_info", "-verbose"]
INFO = ["abi", "params", "args", "shared", "threads", "cm", "cn", "ck", "tm", "tn", "tk", "stages",
        "alignment", "prepare", "prepare_blocks", "overlaps"]


def rows(path):
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            yield words[0], words[1], words[2], words[3:]


def source(template, settings):
    lines = []
    for setting in settings:
        name, _, value = setting.partition("=")
        lines.append(f"#define {name} {value.replace(',', ', ')}")
    return "\n".join(lines + [f'#include "{template}.cuh"', ""])


def file_rows(path, arch):
    """Yields name, architecture and source of each row of a file."""
    for name, own_arch, template, settings in rows(path):
        yield name, arch or own_arch, lambda t=template, s=settings: source(t, s)


def catalogue_rows(troupe, problem, arch):
    """Yields the same for the catalogue, each row with the first of its types."""
    def run(*words):
        done = subprocess.run([troupe, "cutlass", "kernels", *words], capture_output=True, text=True)
        if done.returncode:
            raise Failed(done.stderr.strip())
        return done.stdout

    head, *lines = run().splitlines()
    for line in lines:
        name, inputs = line.split()[0], line[head.index("A, B"):head.index("tile")]
        options = ["--type", inputs.split()[0].rstrip(",")] + ["--tf32"] * ("tf32" in inputs)
        if "/" in inputs:
            options += ["--factors-a", inputs.split()[-1]]
            options += ["--factors-b", "128x128"] * inputs.rstrip().endswith(" 128")
        if "i8 or f8" in inputs or "i4" in inputs:
            options += ["--type-b", "i4" if "i4" in inputs else "i8"]
            options += ["--group", "128"] * line.startswith("s90_")
        own = re.search(r"sm_\d+a?", line)[0]
        if own.endswith("a"):  # of one generation
            device = ["--capability", own[3:-1]]
        else:
            least, own = own, arch if arch and not arch.endswith("a") else "sm_90"
            if int(own[3:]) < int(least[3:]):
                continue
            device = ["--capability", own[3:]]
        if arch and arch != own:
            continue
        yield name, own, lambda n=name, o=options + device: run("--source", n, *o,
                                                                *shlex.split(problem))


def library(folder, name):
    for path in [folder / "lib64" / name, name]:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


class Failed(Exception):
    pass


def compile_lto(nvrtc, text, name, options):
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    try:
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        code = nvrtc.nvrtcCompileProgram(program, len(options), array)
        size = ctypes.c_size_t()
        if code:
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise Failed(log.value.decode(errors="replace"))
        nvrtc.nvrtcGetLTOIRSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetLTOIR(program, image)
        return image.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def link(nvjitlink, image, arch):
    handle = ctypes.c_void_p()
    options = [o.encode() for o in [f"-arch={arch}", *LINK]]
    array = (ctypes.c_char_p * len(options))(*options)
    if nvjitlink.nvJitLinkCreate(ctypes.byref(handle), len(options), array):
        raise Failed("nvJitLink: not with these options")
    try:
        code = nvjitlink.nvJitLinkAddData(handle, 3, image, ctypes.c_size_t(len(image)), b"kernel")
        code = code or nvjitlink.nvJitLinkComplete(handle)
        size = ctypes.c_size_t()
        logs = []
        for which in ["Error", "Info"]:
            getattr(nvjitlink, f"nvJitLinkGet{which}LogSize")(handle, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            getattr(nvjitlink, f"nvJitLinkGet{which}Log")(handle, log)
            logs.append(log.value.decode(errors="replace"))
        if code:
            raise Failed(logs[0])
        nvjitlink.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        nvjitlink.nvJitLinkGetLinkedCubin(handle, cubin)
        return cubin.raw, "\n".join(logs)
    finally:
        nvjitlink.nvJitLinkDestroy(ctypes.byref(handle))


def sections(cubin):
    at, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, at + i * size) for i in range(count)]
    strings = heads[names][4]
    for head in heads:
        end = cubin.index(b"\0", strings + head[0])
        yield cubin[strings + head[0]:end].decode(), head


def info(cubin):
    """Returns the words of trp_cutlass_info, read from the image as a host does."""
    heads = list(sections(cubin))
    for name, head in heads:
        if head[1] != 2:  # the symbol table
            continue
        strings = heads[head[6]][1][4]
        for at in range(head[4], head[4] + head[5], 24):
            offset, _, _, index, value, size = struct.unpack_from("<IBBHQQ", cubin, at)
            end = cubin.index(b"\0", strings + offset)
            if cubin[strings + offset:end] == b"trp_cutlass_info" and index < len(heads):
                words = struct.unpack_from(f"<{size // 4}I", cubin, heads[index][1][4] + value)
                return dict(zip(INFO, words))
    return {}


def registers(log):
    """Returns the registers of the kernel and its spilled bytes, reported by ptxas."""
    text = log.partition("Compiling entry function 'trp_cutlass_kernel'")[2]
    count = re.search(r"Used (\d+) registers", text)
    spills = re.search(r"(\d+) bytes spill stores", text)
    return int(count[1]) if count else "?", int(spills[1]) if spills else "?"


def cpu():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cuda", type=Path, default=Path("/usr/local/cuda"))
    parser.add_argument("--headers", type=Path, default=ROOT / "build/cutlass/include")
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "cutlass_rows.txt")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--troupe")
    parser.add_argument("--problem", default="")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()

    nvrtc, nvjitlink = library(args.cuda, "libnvrtc.so"), library(args.cuda, "libnvJitLink.so")
    if not nvrtc or not nvjitlink or not (args.headers / "cutlass/cutlass.h").is_file():
        print("cutlass_sweep: NVRTC, nvJitLink or CUTLASS's headers are not here")
        return 77
    includes = [ACTOR / "shims", ACTOR / "templates", args.headers,
                args.cuda / "include", args.cuda / "include/cccl"]
    failures = 0
    print("row                                  arch    cpu s  wall s  link s     KB  regs  spills"
          "  shared  threads  stages  params", flush=True)
    if args.troupe:
        every = catalogue_rows(args.troupe, args.problem, args.arch)
    else:
        every = file_rows(args.rows, args.arch)
    for name, arch, text_of in every:
        if args.names and not any(name == n if args.exact else name.startswith(n) for n in args.names):
            continue
        options = [f"--gpu-architecture={arch}", *OPTIONS, *args.option,
                   *[f"-I{i}" for i in includes]]
        try:
            text = text_of()
            begin, used = time.monotonic(), cpu()
            image = compile_lto(nvrtc, text, name + ".cu", options)
            compiled, compiled_cpu = time.monotonic(), cpu()
            cubin, log = link(nvjitlink, image, arch)
        except Failed as error:
            failures += 1
            print(f"{name:36} {arch:7} FAILED")
            print("\n".join("    " + line[:240] for line in str(error).split("\n")[:12]), flush=True)
            continue
        what, (count, spills) = info(cubin), registers(log)
        print(f"{name:36} {arch:7} {compiled_cpu - used:5.1f}  {compiled - begin:6.1f}"
              f"  {cpu() - compiled_cpu:6.2f}  {len(cubin) / 1024:5.0f}  {count!s:>4}"
              f"  {spills!s:>6}  {what.get('shared', 0):6}  {what.get('threads', 0):7}"
              f"  {what.get('stages', 0):6}  {what.get('params', 0):6}", flush=True)
        for line in log.split("\n"):
            if re.search(r"\(C\d+\)|serialized", line):
                print("    " + line[:240], flush=True)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / f"{name}.cu").write_text(text)
            (args.out / f"{name}.cubin").write_bytes(cubin)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
