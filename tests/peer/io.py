"""Files of arrays against NumPy: what either writes the other reads, to the last byte. safetensors are read
and written here by the few lines that their format takes.

Usage: io.py IO_RUNNER [--seed N]
"""

import argparse
import json
import os
import random
import struct
import subprocess
import tempfile
import zipfile

import numpy

TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "c128": "<c16", "c64": "<c8", "i64": "<i8", "i32": "<i4",
         "i8": "|i1", "u8": "|u1", "bool": "|b1"}
SAFE = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2",
        "f8e8m0": "F8_E8M0", "f4e2m1": "F4", "i64": "I64", "i32": "I32", "i8": "I8", "u8": "U8", "bool": "BOOL",
        "c64": "C64"}
BITS = {"f4e2m1": 4, "bf16": 16, "f8e4m3": 8, "f8e5m2": 8, "f8e8m0": 8}


def random_shape(draw):
    rank = draw.choice([0, 1, 1, 2, 2, 3, 5, 9])
    return tuple(draw.choice([0, 1, 2, 3, 7, 16]) if rank > 3 else draw.randrange(0, 90) for _ in range(rank))


def random_array(draw, name):
    shape = random_shape(draw)
    dtype = numpy.dtype(TYPES[name])
    count = int(numpy.prod(shape, dtype=numpy.int64))
    flat = numpy.frombuffer(draw.randbytes(count * dtype.itemsize), dtype=numpy.uint8)
    flat = (flat & 1).view(dtype) if name == "bool" else flat.view(dtype)
    return flat.reshape(shape, order=draw.choice("CF"))


def dump(runner, path):
    """What the library reads: name -> (type, order, shape, bytes)."""
    out = subprocess.run([runner, "dump", path], check=True, stdout=subprocess.PIPE).stdout
    found, at = {}, 0
    while at < len(out):
        line, at = out[at:out.index(b"\n", at)].decode(), out.index(b"\n", at) + 1
        kind, order, shape, size, name = line.split(" ", 4)
        found[name] = (kind, order, tuple(int(x) for x in shape.split(",") if x), out[at:at + int(size)])
        at += int(size)
    return found


def same(name, got, array):
    kind, order, shape, data = got
    assert numpy.dtype(TYPES[kind]) == array.dtype, (name, kind, array.dtype)
    assert shape == array.shape, (name, shape, array.shape)
    read = numpy.frombuffer(data, dtype=array.dtype).reshape(shape, order=order)
    assert read.tobytes() == array.tobytes(), (name, "the elements differ")


def check_numpys(runner, folder, draw):
    """Files that NumPy writes."""
    arrays = {f"a{i}": random_array(draw, draw.choice(list(TYPES))) for i in range(draw.randrange(0, 6))}
    for save in (numpy.savez, numpy.savez_compressed):
        path = os.path.join(folder, "n.npz")
        save(path, **arrays)
        found = dump(runner, path)
        assert found.keys() == arrays.keys(), (found.keys(), arrays.keys())
        for name, array in arrays.items():
            same(name, found[name], array)
    for name, array in arrays.items():
        path = os.path.join(folder, "n.npy")
        version = draw.choice([(1, 0), (2, 0), (3, 0)])
        with open(path, "wb") as f:
            numpy.lib.format.write_array(f, array, version=version)
        same(name, dump(runner, path)[""], array)
        # The library's own copy of it is NumPy's file, byte for byte.
        numpy.save(path, array)
        copy = os.path.join(folder, "copy.npy")
        subprocess.run([runner, "copy", path, copy], check=True)
        assert open(path, "rb").read() == open(copy, "rb").read(), (name, array.dtype, array.shape, array.flags)
    path, copy = os.path.join(folder, "n.npz"), os.path.join(folder, "copy.npz")
    subprocess.run([runner, "copy", path, copy], check=True)
    assert zipfile.ZipFile(copy).testzip() is None
    with numpy.load(copy) as back:
        assert set(back.files) == set(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype and back[name].shape == array.shape
            assert back[name].tobytes() == array.tobytes(), name


def write_safetensors(path, tensors, draw):
    header, data = {"__metadata__": {"format": "pt", "quote": 'a "b" \\ \n ü'}}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": SAFE[kind], "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    items = list(header.items())
    draw.shuffle(items)
    text = json.dumps(dict(items), ensure_ascii=draw.random() < 0.5).encode()
    text += b" " * draw.randrange(0, 9)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    assert length % 8 == 0, "elements must begin aligned"
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    metadata = header.pop("__metadata__", {})
    end = 0
    found = {}
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = tensor["data_offsets"]
        assert begin == end, (name, begin, end)
        end = stop
        found[name] = (tensor["dtype"], tuple(tensor["shape"]), data[begin:stop])
    assert end == len(data)
    return metadata, found


def check_safetensors(runner, folder, draw):
    tensors = {}
    for i in range(draw.randrange(0, 8)):
        kind, shape = draw.choice(list(SAFE)), random_shape(draw)
        bits = BITS.get(kind) or numpy.dtype(TYPES[kind]).itemsize * 8
        count = int(numpy.prod(shape, dtype=numpy.int64)) * bits
        if count % 8 == 0:
            tensors[f"layer.{i}/ü \"q\""] = (kind, shape, draw.randbytes(count // 8))
    path, copy = os.path.join(folder, "s.safetensors"), os.path.join(folder, "copy.safetensors")
    write_safetensors(path, tensors, draw)
    found = dump(runner, path)
    assert found.keys() == tensors.keys()
    for name, (kind, shape, raw) in tensors.items():
        assert found[name] == (kind, "C", shape, raw), name
    subprocess.run([runner, "copy", path, copy], check=True)
    metadata, back = read_safetensors(copy)
    assert metadata.get("format", "pt") == "pt"
    assert back == {name: (SAFE[kind], shape, raw) for name, (kind, shape, raw) in tensors.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runner")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--rounds", type=int, default=12)
    a = parser.parse_args()
    print(f"io: NumPy {numpy.__version__}, seed {a.seed}")
    draw = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            check_numpys(a.runner, folder, draw)
            check_safetensors(a.runner, folder, draw)


main()
