"""What a test decides of the stand-in's machine, and what it is told of what happened."""

import threading
import weakref
from types import SimpleNamespace


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
# How many bytes were pinned.
pinned = 0
# How often NVRTC compiled.
compiled = 0
# What CUDA numbers the error with which every launch fails, if it does.
failing = 0
# Whether a kernel of before broke off, so that nothing comes back from a GPU.
broken = False
architecture = "90"
processors = 132
# What was begun on streams that wait for nobody, by their numbers, and not done yet.
queues = {}
# The memory of all arrays, which stays until what was begun with it is done.
rooms = weakref.WeakValueDictionary()
# Threads take memory at the same time, and one may give some back while it takes some.
_counting = threading.RLock()
# Arrays that lie on another GPU than the current one, by their addresses.
places = {}


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


def at(address):
    return places.get(address, device)


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


def reset():
    """As it is at the beginning of a test."""
    global devices, driver, room, device, streams, compiled, architecture, processors
    global failing, broken, pinned
    failing, broken, pinned = 0, False, 0
    devices, driver, room, device, streams, compiled = 2, 13000, 1 << 34, 0, _Streams(), 0
    architecture, processors = "90", 132
    log.clear()
    places.clear()
    queues.clear()


POOL = SimpleNamespace(
    free_bytes=lambda: 0,
    used_bytes=lambda: used,
    get_limit=lambda: 0,
    free_all_blocks=lambda: None,
)
