#!/usr/bin/env python3
"""Compiles kernels from the templates of src/actors/cutlass, one after the other, and prints for each
what it took and gave. Needs NVRTC and nvJitLink, CUDA's headers and scripts/cutlass.sh, and no GPU.

Usage: cutlass_sweep.py [--arch ARCH] [--out FOLDER] [--cuda FOLDER] [NAME...]

NAME... are rows of cutlass_rows.txt, whole or their beginnings; none: all of them. With --out the
sources, PTX and cubins stay in FOLDER. CPU seconds are of all threads; elapsed ones only mean
something on an idle machine. Exit code 1 if a row does not compile, 77 if there is no compiler.
"""

import argparse
import ctypes
import re
import resource
import struct
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACTOR = ROOT / "src/actors/cutlass"
OPTIONS = ["-std=c++17", "--device-as-default-execution-space", "-DNDEBUG", "-w"]
INFO = ["abi", "params", "args", "shared", "threads", "cm", "cn", "ck", "tm", "tn", "tk", "stages",
        "alignment"]


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


def library(folder, name):
    for path in [folder / "lib64" / name, name]:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


class Failed(Exception):
    pass


def nvrtc_ptx(nvrtc, text, name, options):
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
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, ptx)
        return ptx.value.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


VARIABLE = re.compile(r"^\.global [^=;]*?([A-Za-z_$][\w$]*)(\[[^\]]*\])?( = .*)?;$")


def strip(ptx):
    """PTX without the variables that nothing in it names: what is left of C++'s static constants."""
    ptx = re.sub(r"^(\.global [^=;]*\btrp_cutlass_info\b)", r".visible \1", ptx, flags=re.MULTILINE)
    lines = ptx.split("\n")
    kept = [line for line in lines if not VARIABLE.match(line)]
    used = set(re.findall(r"[A-Za-z_$][\w$]*", "\n".join(kept)))
    found = [(line, VARIABLE.match(line)) for line in lines]
    return "\n".join(line for line, match in found if not match or match.group(1) in used)


def link(nvjitlink, ptx, arch):
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 2)(f"-arch={arch}".encode(), b"-verbose")
    if nvjitlink.nvJitLinkCreate(ctypes.byref(handle), 2, options):
        raise Failed("nvJitLink: not with these options")
    try:
        text = ptx.encode() + b"\0"
        code = nvjitlink.nvJitLinkAddData(handle, 2, text, ctypes.c_size_t(len(text)), b"kernel")
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
    """The words of trp_cutlass_info, read from the image as it would be by a host."""
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


def registers(cubin):
    """Registers and bytes of local memory of the kernel, from its attributes in the image."""
    count = frame = None
    for name, head in sections(cubin):
        if name == ".text.trp_cutlass_kernel":
            count = head[7] >> 24
        if name.startswith(".nv.local.trp_cutlass_kernel"):
            frame = head[5]
    return count, frame


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
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()

    nvrtc, nvjitlink = library(args.cuda, "libnvrtc.so"), library(args.cuda, "libnvJitLink.so")
    if not nvrtc or not nvjitlink or not (args.headers / "cutlass/cutlass.h").is_file():
        print("cutlass_sweep: NVRTC, nvJitLink or CUTLASS's headers are not here")
        return 77
    includes = [ACTOR / "include", ACTOR / "templates", ACTOR, args.headers,
                args.cuda / "include", args.cuda / "include/cccl"]
    failures = 0
    print("row                              arch    cpu s  wall s  link s     KB  regs  local"
          "  shared  threads  stages  params", flush=True)
    for name, arch, template, settings in rows(args.rows):
        if args.names and not any(name.startswith(n) for n in args.names):
            continue
        arch = args.arch or arch
        options = [f"--gpu-architecture={arch}", *OPTIONS, *args.option,
                   *[f"-I{i}" for i in includes]]
        text = source(template, settings)
        try:
            begin, used = time.monotonic(), cpu()
            ptx = nvrtc_ptx(nvrtc, text, name + ".cu", options)
            compiled, compiled_cpu = time.monotonic(), cpu()
            short = strip(ptx)
            cubin, log = link(nvjitlink, short, arch)
        except Failed as error:
            failures += 1
            print(f"{name:32} {arch:7} FAILED")
            print("\n".join("    " + line[:240] for line in str(error).split("\n")[:12]), flush=True)
            continue
        what, (count, frame) = info(cubin), registers(cubin)
        print(f"{name:32} {arch:7} {compiled_cpu - used:5.1f}  {compiled - begin:6.1f}"
              f"  {cpu() - compiled_cpu:6.2f}  {len(cubin) / 1024:5.0f}  {count!s:>4}"
              f"  {frame or 0:5}  {what.get('shared', 0):6}  {what.get('threads', 0):7}"
              f"  {what.get('stages', 0):6}  {what.get('params', 0):6}", flush=True)
        for line in log.split("\n"):
            if "C75" in line or "serializ" in line:
                print("    " + line[:240], flush=True)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / f"{name}.cu").write_text(text)
            (args.out / f"{name}.ptx").write_text(short)
            (args.out / f"{name}.cubin").write_bytes(cubin)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
