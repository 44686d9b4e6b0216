#!/usr/bin/env python3
"""Checks that includes follow the layers of the design: arrows point down only; that what one file of
src/ does for all is called there alone; and that public functions begin as src/base/call.h says.

Includes of our own are written "layer/file.h" (relative to src/), "file.h" (same folder) or
<troupe/file.h>. Prints each one that breaks the rules; exit code 1 if there is any.
"""

import os
import re
import sys
from pathlib import Path

# Each layer, and the layers of src/ that it may include besides itself. <troupe/...> is open to all.
BELOW = {
    "base": [],
    "wire": ["base"],
    "driver": ["base", "wire"],
    "libs": ["base", "driver"],
    "cache": ["base", "wire", "driver"],
    "io": ["base"],  # works through the public surface
    "client": ["base", "wire", "driver"],
    "tuning": ["base", "wire", "driver", "cache"],
    "worker": ["base", "wire", "driver", "cache"],
    "backend": ["base", "wire", "driver", "cache", "worker"],
    "compile": ["base", "wire", "driver", "libs", "cache", "worker"],
    "matrix": ["base", "wire", "driver", "libs", "cache", "tuning"],
    "actors": ["base", "wire", "driver", "libs", "cache", "tuning", "worker", "backend", "compile", "matrix"],
}
SOURCE_LAYERS = list(BELOW)

# The folders outside of src/, by the longest prefix: they see the public headers and what is listed.
OUTSIDE = {
    "include": [],
    "cli": ["cli", "bench", "base", "wire", "cache", "tuning", "actors", "io"],  # troupe cache, tune, cutlass kernels
    "examples": [],
    "bench": ["bench", "driver", "libs", "actors", "cache"],
    "tests": ["tests", "cli"],  # its reader of JSON
    "tests/support": ["tests", "base"],
    "tests/support/reference": ["tests", "base", "libs"],
    "tests/support/fake_cuda": ["tests", "base", "driver", "libs", "matrix", "actors"],
    "tests/cli": ["tests", "cli"],
    "tests/unit": ["tests", "cli", "bench"] + SOURCE_LAYERS,
    "tests/fuzz": ["tests", "cli", "bench"] + SOURCE_LAYERS,
}

# Folders of a layer that see less than the layer: what an actor does in the application.
PARTS = {"src/compile/modules": ["base", "wire", "compile/modules"]}

# Files of src/ that join layers: the worker's main puts worker, backends and actors together.
JOINTS = {"src/worker_main.c": SOURCE_LAYERS}

# Actors include no other actor. Files that still do, and the only ones that they may include, with the
# reason. An entry that is not needed any more is an error, too.
ACTOR_PAIRS = {
    # Until a kernel is compiled another actor's code computes the request, in the state and the stream
    # of this actor: its pack function, its payload and its vtable are used.
    "src/actors/cutlass/fallback/cublaslt.c": {"actors/matmul/matmul.h"},
    "src/actors/cutlass/fallback/cublaslt_groups.c": {"actors/matmul/matmul.h"},
    "src/actors/cutlass/fallback/cudnn.h": {"actors/dnn/graph/wire.h"},
    "src/actors/cutlass/fallback/cudnn.c": {"actors/dnn/dnn.h"},
    "src/actors/cutlass/fallback/worker.c": {"actors/dnn/dnn.h", "actors/matmul/matmul.h"},
    # The companion that compiles modules is a class of the jit actor.
    "src/actors/cutlass/cutlass.c": {"actors/jit/jit.h"},
}

# What knows no actor: neither its public headers nor names of its. Copies and fills are the device's
# own, and the client writes their records, so both know the payload of the memory actors.
KNOW_NO_ACTOR = ("src/wire/", "src/client/")
ACTORS = sorted(p.name for p in (Path(__file__).resolve().parent.parent / "src/actors").iterdir()
                if p.is_dir() and p.name != "memory")
NAME_OF_ACTOR = re.compile(r"\btrp_+(?:op_)?(?:" + "|".join(ACTORS + ["module", "kernel"]) + r")(?:_|\b)", re.I)

# The folders of src/client from bottom to top: each includes itself and those before it. What goes up
# goes through a function that is named in a struct of the folder below (trp_device.end_over,
# trp__object_class).
CLIENT_ORDER = ["core", "observe", "memory", "request", "recovery", "api"]
# The header that has struct trp_device, of which each folder has a part, named as the folder.
CLIENT_DEVICE = "src/client/core/device.h"
CLIENT_PART = re.compile(r"\bdevice\)?->(" + "|".join(CLIENT_ORDER) + r")\.")

# Calls that stand in one file of src/, which says why; the others call a function of that file.
ONLY_IN = {"pthread_create": "src/base/os/thread.c",
           "fopen": "src/base/os/descriptor.h", "opendir": "src/base/os/descriptor.h"}
ONLY_IN_CALL = re.compile(r"\b(" + "|".join(ONLY_IN) + r")\s*\(")

# Where public functions stand that take locks or wait.
CALLS = ("src/client/", "src/compile/modules/")
# Those of them that take no lock and wait for nothing.
NO_CALL = {"trp_actor_device", "trp_backend_name", "trp_notice_name", "trp_queue_fd",
           "trp_stats_metrics", "trp_latency_bound", "trp_latency_quantile"}
PUBLIC = re.compile(r"^[a-z_0-9]+(?: [a-z_0-9]+)* \*?(trp_(?!_)[a-z_0-9]+)\([^;{]*?\)\n\{\n(.*)", re.M)

INCLUDE_ANY = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed_layers(path: Path):
    """The layers that a file may include, or None if the file is where none should be."""
    name = path.as_posix()
    if name in JOINTS:
        return JOINTS[name]
    if path.parent.as_posix() in PARTS:
        return PARTS[path.parent.as_posix()]
    if path.parts[0] == "src":
        layer = path.parts[1]
        return BELOW[layer] + [layer] if layer in BELOW else None
    return OUTSIDE[max((p for p in OUTSIDE if name.startswith(p + "/")), key=len)]


def target_layer(path: Path, include: str):
    """The layer that an include names, or None for one of a system or of the same folder."""
    if (path.parent / include).is_file() and "/" not in include:
        return None
    first = include.split("/")[0]
    if "src/" + os.path.dirname(include) in PARTS and path.parent.as_posix() in PARTS:
        return os.path.dirname(include)
    if first in BELOW or first in ("cli", "bench", "tests"):
        return first
    # "../x/y.h" and the like: resolve, to see where it really leads.
    resolved = (path.parent / include).resolve()
    if resolved.is_file() and resolved.is_relative_to(Path.cwd()):
        parts = resolved.relative_to(Path.cwd()).parts
        return parts[1] if parts[0] == "src" else parts[0]
    return None


def other_actor(path: Path, include: str):
    """The actor that an include of a file of another actor's folder leads to, or None."""
    if path.parts[:2] != ("src", "actors") or len(path.parts) == 3:  # table.c and report.c join them
        return None
    match = re.match(r"actors/([^/]+)/", include)
    return match.group(1) if match and match.group(1) != path.parts[2] else None


def client_problem(path: Path, include: str):
    """Why a file of src/client may not include another of its folders, or None."""
    if path.parts[:2] != ("src", "client") or path.as_posix() == CLIENT_DEVICE:
        return None
    match = re.match(r"client/([^/]+)/", include)
    if not match:
        return None
    own, other = path.parts[2], match.group(1)
    up = {own, other} <= set(CLIENT_ORDER) and CLIENT_ORDER.index(other) > CLIENT_ORDER.index(own)
    return f"client/{other} lies above client/{own}" if up else None


def client_parts(path: Path, line: str):
    """The parts of struct trp_device that a line of src/client uses and that a folder above has."""
    if path.parts[:2] != ("src", "client") or path.parts[2] not in CLIENT_ORDER:
        return []
    above = CLIENT_ORDER[CLIENT_ORDER.index(path.parts[2]) + 1:]
    return [part for part in CLIENT_PART.findall(line) if part in above]


def problems(path: Path):
    allowed = allowed_layers(path)
    if allowed is None:
        yield 0, "a folder of src/ that scripts/check_layers.py does not know"
        return
    if path.parts[:2] == ("src", "client") and path.parts[2] not in CLIENT_ORDER:
        yield 0, "src/client has no files outside " + ", ".join(CLIENT_ORDER)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        for part in client_parts(path, line) if path.as_posix() != CLIENT_DEVICE else []:
            yield number, f"may not use the part of trp_device that client/{part} has"
        if path.as_posix().startswith(KNOW_NO_ACTOR):
            header = match and re.match(r"troupe/(\w+)\.h$", match.group(2))
            name = header.group(1) if header and header.group(1) in ACTORS else None
            name = name or (NAME_OF_ACTOR.search(line) or [None])[0]
            if name:
                yield number, f"knows an actor: {name}"
        if not match:
            call = path.parts[0] == "src" and ONLY_IN_CALL.search(line)
            if call and path.as_posix() != ONLY_IN[call.group(1)]:
                yield number, f"{call.group(1)}() stands in {ONLY_IN[call.group(1)]} only"
            continue
        kind, include = match.groups()
        if include.startswith("troupe/"):
            if kind == '"':
                yield number, f'write <{include}>, not "{include}"'
            continue
        other = other_actor(path, include)
        if other and include not in ACTOR_PAIRS.get(path.as_posix(), ()):
            yield number, f'may not include "{include}": the actor {other}'
        up = client_problem(path, include)
        if up:
            yield number, f'may not include "{include}": {up}'
        target = target_layer(path, include)
        if target and target not in allowed:
            yield number, f'may not include "{include}" ({target})'


def needless_pairs():
    """Entries of ACTOR_PAIRS that no include needs."""
    for name, includes in ACTOR_PAIRS.items():
        path = Path(name)
        found = INCLUDE_ANY.findall(path.read_text()) if path.is_file() else []
        for include in sorted(includes - set(found)):
            yield name, f'does not include "{include}": take it out of ACTOR_PAIRS'


def unit(path: Path):
    """The folder of src/ that a file counts for: a layer, or a library, a backend or a folder of the
    client with what is below it; of an actor, each folder by itself."""
    parts = path.parts[1:-1]
    depth = {"actors": len(parts), "libs": 2, "backend": 2, "client": 2}
    return "/".join(parts[: depth.get(parts[0], 1) if parts else 0])


def include_cycles(paths):
    """Cycles of includes between folders of src/, each as the folders in it; so files of different
    folders are in none either. The files of src/ and src/actors/ join all, and count for no folder; nor
    does the header of struct trp_device."""
    edges = {}
    for path in paths:
        if path.as_posix() == CLIENT_DEVICE:
            continue
        for include in INCLUDE_ANY.findall(path.read_text()):
            target = Path("src") / include
            if "/" in include and target.is_file() and unit(path) not in ("", "actors", unit(target)):
                edges.setdefault(unit(path), set()).add(unit(target))
    done, on_way, cycles = set(), [], []

    def visit(folder):
        if folder in on_way:
            cycles.append(on_way[on_way.index(folder):] + [folder])
        elif folder not in done:
            on_way.append(folder)
            for other in sorted(edges.get(folder, ())):
                visit(other)
            on_way.pop()
            done.add(folder)

    for folder in sorted(edges):
        visit(folder)
    return cycles


def calls(path: Path):
    """Public functions that a thread could be cancelled in, or called in by a signal handler."""
    text = path.read_text()
    for match in PUBLIC.finditer(text):
        name, first = match.groups()
        if name not in NO_CALL and not re.search(r"TRP__CALL(_QUICK)?\(", first):
            yield text[: match.start()].count("\n") + 1, f"{name}() begins without TRP__CALL()"


def main():
    os.chdir(Path(__file__).resolve().parent.parent)
    count = failures = 0
    for folder in ["include", "src", "cli", "examples", "bench", "tests"]:
        for path in sorted(Path(folder).rglob("*.[ch]")):
            count += 1
            found = list(problems(path))
            if path.as_posix().startswith(CALLS):
                found += calls(path)
            for number, text in found:
                print(f"{path}:{number}: {text}")
                failures += 1
    for name, text in needless_pairs():
        print(f"{name}: {text}")
        failures += 1
    sources = [path for path in Path("src").rglob("*") if path.suffix in (".c", ".h", ".cuh")]
    for cycle in include_cycles(sorted(sources)):
        print("a cycle of includes between folders: " + " -> ".join(cycle))
        failures += 1
    print(f"layers: {count} files, {failures} lines against the layering")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
