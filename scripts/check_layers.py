#!/usr/bin/env python3
"""Checks that includes follow the layers of the design: only downwards; that some calls occur only
in the one file of src/ that makes them for all; and that public functions begin as src/base/call.h requires.

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

# The folders outside of src/, by the longest prefix: they may include the public headers and the listed layers.
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

# Folders that may include less than their layer: the part of an actor in the application.
PARTS = {"src/compile/modules": ["base", "wire", "compile/modules"]}

# Files of src/ that join layers: the worker's main puts worker, backends and actors together.
JOINTS = {"src/worker_main.c": SOURCE_LAYERS}

# Actors include no other actor. These files are exceptions, with the headers that they may include and the
# reason. An unused entry is an error.
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

# Folders that use no actor: neither public headers nor names of actors. The device itself offers copies and
# fills, and the client writes their records, so both use the payload of the memory actors.
KNOW_NO_ACTOR = ("src/wire/", "src/client/")
ACTORS = sorted(p.name for p in (Path(__file__).resolve().parent.parent / "src/actors").iterdir()
                if p.is_dir() and p.name != "memory")
NAME_OF_ACTOR = re.compile(r"\btrp_+(?:op_)?(?:" + "|".join(ACTORS + ["module", "kernel"]) + r")(?:_|\b)", re.I)

# The folders of src/client from bottom to top: each includes itself and those before it. Upward calls
# go through a function pointer in a struct of the folder below (trp_device.end_over, trp__object_class).
CLIENT_ORDER = ["core", "observe", "memory", "request", "recovery", "api"]
# The header of struct trp_device, in which each folder has a part with the name of the folder.
CLIENT_DEVICE = "src/client/core/device.h"
CLIENT_PART = re.compile(r"\bdevice\)?->(" + "|".join(CLIENT_ORDER) + r")\.")

# Calls allowed in one file of src/ only, which gives the reason; other files call a function of that file.
ONLY_IN = {"pthread_create": "src/base/os/thread.c",
           "fopen": "src/base/os/descriptor.h", "opendir": "src/base/os/descriptor.h"}
ONLY_IN_CALL = re.compile(r"\b(" + "|".join(ONLY_IN) + r")\s*\(")

# Folders with public functions that take locks or wait.
CALLS = ("src/client/", "src/compile/modules/")
# Their public functions that take no lock and do not wait.
NO_CALL = {"trp_actor_device", "trp_backend_name", "trp_notice_name", "trp_queue_fd",
           "trp_stats_metrics", "trp_latency_bound", "trp_latency_quantile"}
PUBLIC = re.compile(r"^[a-z_0-9]+(?: [a-z_0-9]+)* \*?(trp_(?!_)[a-z_0-9]+)\([^;{]*?\)\n\{\n(.*)", re.M)

INCLUDE_ANY = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed_layers(path: Path):
    """Returns the layers that a file may include, or None for a file in an unknown place."""
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
    """Returns the layer that an include names, or None for one of the system or of the same folder."""
    if (path.parent / include).is_file() and "/" not in include:
        return None
    first = include.split("/")[0]
    if "src/" + os.path.dirname(include) in PARTS and path.parent.as_posix() in PARTS:
        return os.path.dirname(include)
    if first in BELOW or first in ("cli", "bench", "tests"):
        return first
    # Resolves "../x/y.h" and the like.
    resolved = (path.parent / include).resolve()
    if resolved.is_file() and resolved.is_relative_to(Path.cwd()):
        parts = resolved.relative_to(Path.cwd()).parts
        return parts[1] if parts[0] == "src" else parts[0]
    return None


def other_actor(path: Path, include: str):
    """Returns the other actor that a file of an actor includes, or None."""
    if path.parts[:2] != ("src", "actors") or len(path.parts) == 3:  # table.c and report.c join them
        return None
    match = re.match(r"actors/([^/]+)/", include)
    return match.group(1) if match and match.group(1) != path.parts[2] else None


def client_problem(path: Path, include: str):
    """Returns why a file of src/client may not include another of its folders, or None."""
    if path.parts[:2] != ("src", "client") or path.as_posix() == CLIENT_DEVICE:
        return None
    match = re.match(r"client/([^/]+)/", include)
    if not match:
        return None
    own, other = path.parts[2], match.group(1)
    up = {own, other} <= set(CLIENT_ORDER) and CLIENT_ORDER.index(other) > CLIENT_ORDER.index(own)
    return f"client/{other} lies above client/{own}" if up else None


def client_parts(path: Path, line: str):
    """Returns the parts of struct trp_device that a line of src/client uses and that belong to a folder above."""
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
    """Yields unused entries of ACTOR_PAIRS."""
    for name, includes in ACTOR_PAIRS.items():
        path = Path(name)
        found = INCLUDE_ANY.findall(path.read_text()) if path.is_file() else []
        for include in sorted(includes - set(found)):
            yield name, f'does not include "{include}": take it out of ACTOR_PAIRS'


def unit(path: Path):
    """Returns the folder of src/ that a file belongs to: a layer, or a library, a backend or a folder of the
    client including subfolders; each folder of an actor by itself."""
    parts = path.parts[1:-1]
    depth = {"actors": len(parts), "libs": 2, "backend": 2, "client": 2}
    return "/".join(parts[: depth.get(parts[0], 1) if parts else 0])


def include_cycles(paths):
    """Returns the cycles of includes between folders of src/, each as a list of folders. The files of src/
    and src/actors/ join all folders and belong to none; nor does the header of struct trp_device."""
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
    """Yields public functions that do not guard against cancellation or calls in a signal handler."""
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
