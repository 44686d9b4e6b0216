"""The program at the other end: tests/peer/peer_runner.c, and the constants of the public headers."""

import mmap
import os
import re
import subprocess
import tempfile

import torch

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include", "troupe")


def _constants():
    found = {}
    for header in ("types.h", "matmul.h", "dnn.h"):
        with open(os.path.join(HEADERS, header), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for body in re.findall(r"enum[^{};]*\{([^}]*)\}", text):
            value = -1
            for item in body.split(","):
                match = re.match(r"\s*(TRP_\w+)\s*(?:=\s*(-?\d+))?\s*$", item)
                if match:
                    value = int(match[2]) if match[2] else value + 1
                    found[match[1]] = value
    return found


CONSTANTS = _constants()


def constant(name):
    return CONSTANTS["TRP_" + name]


def real(value):
    return float(value).hex()


def _folder(size):
    """Where a file of that size has room: memory if there is enough."""
    try:
        shared = os.statvfs("/dev/shm")
        return "/dev/shm" if shared.f_bavail * shared.f_frsize > size else None
    except OSError:
        return None


class Answer:
    def __init__(self, line):
        words = line.split(" ", 4)
        self.status, self.parts = int(words[1]), int(words[2])
        self.engine = "" if words[3] == "-" else words[3]
        self.message = words[4].strip() if len(words) > 4 else ""


class Runner:
    """One process with one device. `map` is the memory that both sides see, as bytes."""

    def __init__(self, program, backend, map_bytes, deadline=120):
        self.arguments, self.backend = [program, None, str(map_bytes), backend, str(deadline)], backend
        self.file = tempfile.NamedTemporaryFile(dir=_folder(map_bytes), prefix="troupe-peer-")
        self.file.truncate(map_bytes)
        self.memory = mmap.mmap(self.file.fileno(), map_bytes)
        self.map = torch.frombuffer(self.memory, dtype=torch.uint8)
        self.arguments[1] = self.file.name
        self.process = None
        self.device = ""
        self.start()

    def start(self):
        worker = os.path.join(os.path.dirname(os.path.abspath(self.arguments[0])), "..", "..", "bin", "troupe-worker")
        environment = dict(os.environ)
        if os.path.exists(worker):
            environment.setdefault("TROUPE_WORKER", os.path.realpath(worker))
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise SystemExit("peer_runner did not start: %r" % line)
        self.device = line[6:].strip()

    def send(self, lines):
        try:
            self.process.stdin.write("\n".join(lines) + "\ngo\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def receive(self):
        """None: the program has ended, and another was started."""
        line = self.process.stdout.readline()
        if line.startswith("done "):
            return Answer(line)
        self.restart()
        return None

    def restart(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.start()

    def close(self):
        self.process.stdin.close()
        code = self.process.wait()
        self.file.close()
        return code
