"""What a test decides of the stand-in's machine, and what it is told of what happened."""

import threading
import weakref
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

import emulator
import protected


class _Streams:
    """The streams that were made the current one, of each thread by itself."""

    def __init__(self):
        self._local = threading.local()

    @property
    def _own(self):
        return self._local.__dict__.setdefault("streams", [0])

    def __getitem__(self, place):
        return self._own[place]

    def append(self, stream):
        self._own.append(stream)

    def pop(self):
        return self._own.pop()


# How many GPUs there are; less than 0 where the driver is too old, and for which CUDA it is.
devices = 2
driver = 13000
# How many bytes there are, and how many are taken.
room = 1 << 34
used = 0
# Which GPU and which stream are the current ones.
device = 0
streams = _Streams()
# What was done, in order: a word, or the name of a function with its stream and its GPU.
log = []
# How often NVRTC compiled, and what, with which options.
compiled = 0
texts = []
# Whether NVRTC is missing, and what it says of every text where it refuses all.
without_compiler = False
refusing = ""
# The texts that are to be built together, while that is so.
asked = None
# Where new arrays lie: anywhere, or with pages around them that nobody may touch, at the "end" of
# the room between these or at its "begin".
pages = ""
# What CUDA numbers the error with which every launch fails, if it does.
failing = 0
# Whether a kernel of before broke off, so that nothing comes back from a GPU.
broken = False
architecture = "90"
# What was begun on streams that wait for nobody, by their numbers, and not done yet.
queues = {}
# The memory of all arrays, which stays until what was begun with it is done.
rooms = weakref.WeakValueDictionary()
# Threads take memory at the same time, and one may give some back while it takes some.
_counting = threading.RLock()


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes, limit "
            f"set to: {limit:,} bytes)."
        )


def begin(stream, work):
    """Do something in the order of a stream: at once, or when one waits for the stream."""
    if stream not in queues:
        work()
        return
    queues[stream].append((work, list(rooms.values())))


def finish(stream):
    """Do all that was begun on a stream."""
    queue = queues.get(stream, [])
    while queue:
        work, _ = queue.pop(0)
        work()


def current():
    return device


def note(word):
    log.append(word)


def taken(size):
    global used
    with _counting:
        if used + size > room:
            raise OutOfMemoryError(size, used, room)
        used += size


def given_back(size):
    global used
    with _counting:
        used -= size


def launches():
    """The names of what was launched."""
    return [one[0] for one in log if isinstance(one, tuple) and one[0] != "wait"]


@contextmanager
def together(build=True):
    """Launch nothing within the block, and build all that was asked for at its end.

    What calls give is nothing, and settled: done again they find what was built.
    """
    global asked
    asked = []
    try:
        yield
        if build:
            emulator.build(asked)
    finally:
        asked = None


@contextmanager
def strictly(arrays=""):
    """Lay new arrays at pages that nobody may touch."""
    global pages
    before, pages = pages, arrays
    try:
        yield
    finally:
        pages = before


def room_for(size):
    """The memory of a new array, full of what no kernel gives."""
    if pages:
        room = protected.between(np.empty(size, np.uint8), at_end=pages == "end")
        room.fill(0xC3)
        return room, 0
    # As CuPy's memory begins.
    room = np.full(size + 512, 0xC3, np.uint8)
    return room, -room.ctypes.data % 512


def reset():
    """As it is at the beginning of a test."""
    global devices, driver, room, device, streams, compiled, architecture
    global failing, broken, without_compiler, refusing
    devices, driver, room, device, streams, compiled = 2, 13000, 1 << 34, 0, _Streams(), 0
    failing, broken, without_compiler, refusing, architecture = 0, False, False, "", "90"
    for some in (texts, log, queues):
        some.clear()


POOL = SimpleNamespace(
    free_bytes=lambda: 0, used_bytes=lambda: used, get_limit=lambda: 0,
    free_all_blocks=lambda: None,
)  # fmt: skip
