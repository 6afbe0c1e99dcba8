"""Machine code that the package has besides that of kernels.

crew         threads that share the parts of a job (see `..threads`)
allocator    memory for NumPy's arrays (see `..memory`)

This is text for the compiler, as that of `entries` is: it never runs as Python.
"""

from __future__ import annotations

import mmap
import time
from typing import Any

c: Any = None
machine: Any = None

# A crew.

# Where the parts of a crew are [bytes].  What different threads write lies on lines of its own.
DO, SPIN = 0, 8
PART, ARGUMENT, COUNT = 64, 72, 80
GENERATION, OPEN = 128, 136
NEXT, FAILED = 192, 200
BUSY, OWNED = 256, 264
GATE, WAKE, DONE = 320, 448, 576
LENGTH = 704

CLOCK = time.CLOCK_MONOTONIC if hasattr(time, "CLOCK_MONOTONIC") else 0


def begin(crew):
    """Begin a crew at an address."""
    c.pthread_mutex_init(crew + GATE, 0)
    c.pthread_cond_init(crew + WAKE, 0)
    c.pthread_cond_init(crew + DONE, 0)
    return 0


def member(crew):
    """Wait for jobs, all life long."""
    seen = 0
    while True:
        wait(crew, GENERATION, seen, False, WAKE)
        seen = machine.get(crew + GENERATION)
        machine.add(crew + BUSY, 1)
        # So many more may take part: who did not come before a job's end must leave it alone.
        more = machine.get(crew + OPEN)
        while more > 0:
            if machine.swap(crew + OPEN, more, more - 1) == more:
                work(crew)
                more = 0
            else:
                more = machine.get(crew + OPEN)
        if machine.add(crew + BUSY, -1) == 1:
            c.pthread_mutex_lock(crew + GATE)
            c.pthread_cond_signal(crew + DONE)
            c.pthread_mutex_unlock(crew + GATE)
    return 0


def work(crew):
    """Do parts of a job as long as there are any."""
    part, argument = machine.get(crew + PART), machine.get(crew + ARGUMENT)
    count = machine.get(crew + COUNT)
    k = machine.add(crew + NEXT, 1)
    while k < count:
        machine.either(crew + FAILED, machine.do(part, argument, k))
        k = machine.add(crew + NEXT, 1)


def do(crew, threads, part, argument, count):
    """Do a job: alone, if the crew does another one."""
    if machine.swap(crew + OWNED, 0, 1) != 0:
        failed = 0
        for k in range(count):
            failed |= machine.do(part, argument, k)
        return failed
    machine.set(crew + PART, part)
    machine.set(crew + ARGUMENT, argument)
    machine.set(crew + COUNT, count)
    machine.set(crew + NEXT, 0)
    machine.set(crew + FAILED, 0)
    machine.set(crew + OPEN, threads - 1)
    machine.add(crew + GENERATION, 1)
    c.pthread_mutex_lock(crew + GATE)
    c.pthread_cond_broadcast(crew + WAKE)
    c.pthread_mutex_unlock(crew + GATE)
    work(crew)
    machine.set(crew + OPEN, 0)
    wait(crew, BUSY, 0, True, DONE)
    result = machine.get(crew + FAILED)
    machine.set(crew + OWNED, 0)
    return result


def wait(crew, place, value, same, condition):
    """Wait until a word is a value, or another one: look for a moment, then sleep."""
    end = nanoseconds() + machine.get(crew + SPIN)
    while nanoseconds() < end:
        if (machine.get(crew + place) == value) == same:
            return 0
        c.sched_yield()
    c.pthread_mutex_lock(crew + GATE)
    while (machine.get(crew + place) == value) != same:
        c.pthread_cond_wait(crew + condition, crew + GATE)
    c.pthread_mutex_unlock(crew + GATE)
    return 0


def nanoseconds():
    """The time [ns]."""
    clock = machine.room(2)
    c.clock_gettime(CLOCK, clock)
    return clock[0] * 1_000_000_000 + clock[1]


# The allocator: four functions that NumPy calls, and one that changes what becomes of memory.

# What becomes of an array's memory (see `..memory`).
USED, FREE, OWN, PLAIN = range(4)

# Before an array's memory: what becomes of it, where its mapping begins, how long that is, and
# how many bytes the array may have.  64 bytes keep arrays aligned for every vector.
HEAD = 64


def malloc(context, size):
    """The memory that was put into the context, once, or new."""
    known = machine.exchange(context, 0)
    return known if known != 0 else headed(c.malloc(size + 2 * HEAD), size)


def calloc(context, count, size):
    """New memory of zeros."""
    return headed(c.calloc(count + 2 * HEAD, size), count * size)


def headed(base, size):
    """Memory from C's `malloc` with a head."""
    if base == 0:
        return 0
    at = (base + 2 * HEAD - 1) & -HEAD
    head = at - HEAD
    head[0], head[1], head[2], head[3] = PLAIN, base, 0, size
    return at


def free(context, at, size):
    """Give memory back to where it came from, or say that it is free."""
    if at == 0:
        return 0
    head = at - HEAD
    base, length = head[1], head[2]
    state = machine.exchange(head, FREE)
    if state == OWN:
        c.munmap(base, length)
    if state == PLAIN:
        c.free(base)
    return 0


def realloc(context, at, size):
    """New memory that holds what the old one did."""
    fresh = malloc(context, size)
    if fresh != 0 and at != 0:
        c.memcpy(fresh, at, min((at - HEAD)[3], size))
        free(context, at, 0)
    return fresh


def swap(at, before, after):
    """Change what becomes of memory, if that is as it was; what it was."""
    return machine.swap(at - HEAD, before, after)


# How memory is asked for, where the system knows: to be read and written, and nobody else's.
PAGE, ADVICE = mmap.PAGESIZE, getattr(mmap, "MADV_HUGEPAGE", 0)
ACCESS = getattr(mmap, "PROT_READ", 0) | getattr(mmap, "PROT_WRITE", 0)
OWNER = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


def mapped(size, shift, huge, count):
    """Memory of the process's own for an array, which is USED; 0 if there is none.

    It begins so much behind the begin of a page; some first pages are `huge`, if there are such.
    """
    length = (size + shift + PAGE - 1) & -PAGE
    if count != 0:
        length = max(length, count * huge) + huge
    base = c.mmap(0, length, ACCESS, OWNER, -1, 0)
    if base == -1:
        return 0
    begin = base
    if count != 0:
        begin = (base + huge - 1) & -huge
        c.madvise(begin, count * huge, ADVICE)
    head = begin + shift - HEAD
    head[0], head[1], head[2], head[3] = USED, base, length, size
    return begin + shift


def unmap(at):
    """Give the memory of an array back to the system; it must be nobody's."""
    head = at - HEAD
    c.munmap(head[1], head[2])
    return 0
