#!/usr/bin/env python3
"""Copies the headers of CUTLASS that the templates of src/actors/cutlass include, and no others.

Usage: cutlass_headers.py SOURCE FOLDER    SOURCE has include/ and tools/util/include/
       cutlass_headers.py --hash           what the answer depends on, besides SOURCE

Conditions are not looked at, so that there are rather too many than too few: a header counts if any
line of a header that counts includes it, found as the compiler would, in our folders first.
"""

import hashlib
import re
import shutil
import sys
from pathlib import Path

ACTOR = Path(__file__).resolve().parent.parent / "src/actors/cutlass"
OURS = [ACTOR / "shims", ACTOR / "templates"]
INCLUDE = re.compile(r'^\s*#\s*(include|include_next)\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def our_files():
    return sorted(p for p in ACTOR.rglob("*") if p.suffix not in (".c", ".txt") and p.is_file())


def find(name, kind, quoted, file, place, places):
    """The file that is included and the place that it was found in, or None."""
    if quoted and (file.parent / name).is_file():
        return (file.parent / name).resolve(), place
    start = place + 1 if kind == "include_next" else 0
    for at in range(start, len(places)):
        if (places[at] / name).is_file():
            return (places[at] / name).resolve(), at
    return None


def closure(places):
    seen = {}
    todo = [(p.resolve(), 1) for p in sorted((ACTOR / "templates").glob("*.cuh"))]
    while todo:
        file, place = todo.pop()
        if file in seen:
            continue
        seen[file] = place
        for kind, mark, name in INCLUDE.findall(file.read_text(errors="replace")):
            found = find(name, kind, mark == '"', file, place, places)
            if found:
                todo.append(found)
    return seen


def main():
    if sys.argv[1:] == ["--hash"]:
        lines = [f"{p.relative_to(ACTOR)} {m}" for p in our_files()
                 for m in INCLUDE.findall(p.read_text())]
        text = "\n".join(lines) + Path(__file__).read_text()
        print(hashlib.sha256(text.encode()).hexdigest()[:16])
        return 0
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    theirs = [source / "include", source / "tools/util/include"]
    size = count = 0
    for file in closure(OURS + theirs):
        for place in theirs:
            if file.is_relative_to(place):
                to = folder / file.relative_to(place)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, to)
                size += file.stat().st_size
                count += 1
    print(f"cutlass: {count} headers, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
