"""How Python calls the machine code of kernels, and threads share it: one code for all of them.

    entry(*fields, *results, *coefficients, *scalars)     a block
    entry(*the same, table)                               pieces of it, one by one
    entry(*the same, table, crew, threads)                the same, shared among a crew

This is text for the compiler (see `native`), as that of kernels is: it never runs as Python.
A function gives 0 if it says nothing else.
All numbers are words, addresses too, and `at[k]` is the word so many words on; `c` has the
functions of C, and `machine` what only machine code does (see `printing`).

What an entry is bound to is an array of words, its *record*, which says where the kernel's machine
code is and of which kinds its arguments are (see below).  They read arrays where NumPy keeps
what describes them, and let go of the interpreter's lock; who calls them sees to it that arrays
are those that the kernel was compiled for.  They call Python's functions only, none of its data:
those are not near enough to be reached.

A kernel is called with *views* of its arrays, each of which is an address, a shape and strides,
and with its *values*, which are coefficients and scalars, one after the other; it gives 0 if all
went well.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

c: Any = None
machine: Any = None

# Where the fields of an array are, in words, with 64-bit pointers, which is part of NumPy's binary
# interface: NumPy's own headers compile it into other packages.  They are `PyArrayObject_fields`
# in NumPy's ndarraytypes.h.
DATA, SHAPE, STRIDES = 2, 4, 5

# The record of a kernel, in words: where its machine code begins, None, how many arguments there
# are, arrays among them, axes of these, words of all; then what each argument is [bytes].
CODE, NONE, KINDS, ARRAYS, AXES, WORDS, FIRST = range(7)
# Of each its axes, the letter of its kind, its size, and where its words are among those of all.
OF_AXES, OF_LETTER, OF_SIZE, OF_PLACE, PER_KIND = range(5)

FLOAT, COMPLEX = map(ord, "fc")


# What a job is told: a record, views, values, where the table is, the crew, of how many threads.
RECORD, VIEWS, VALUES, TABLE, CREW, THREADS, TOLD = range(7)

# A table says how many pieces there are, and then of each one how many bytes are copied for it and
# what becomes of each of its arrays: the table of `pad` and a constant, or nothing if it is read
# where it lies; the first element of each axis; their lengths.
COUNT, PIECES = range(2)


def entry(self, arguments, count):
    """Compute a block, or pieces of it.

    All is looked at first, so that the threads of a crew compute without Python.
    """
    record, held = self[DATA], machine.room(TOLD)
    kinds = record[KINDS]
    views = machine.room(record[WORDS])
    values = views + 8 * record[ARRAYS] * (2 * record[AXES] + 1)
    held[RECORD], held[VIEWS], held[VALUES] = record, views, values
    held[TABLE], held[CREW] = 0, 0
    for k in range(count - kinds):
        held[TABLE + k] = c.PyLong_AsLongLong(arguments[kinds + k])
    if not taken(record, arguments, views):
        return 0
    thread = c.PyEval_SaveThread()
    status = done(held) if held[TABLE] else machine.do(record[CODE], views, values)
    c.PyEval_RestoreThread(thread)
    if status != 0:
        # Nothing else is raised by text that reads what it was proved to have.
        return c.PyErr_NoMemory()
    c.Py_IncRef(record[NONE])
    return record[NONE]


def part(held, index):
    """Compute one of the pieces of a table; 0 if all went well."""
    record, views, table = held[RECORD], held[VIEWS], held[TABLE]
    arrays, axes = record[ARRAYS], record[AXES]
    words = 2 * axes + 1
    at = table + 8 * (PIECES + index * (1 + arrays * (words + 1)))
    own, copied, memory = machine.room(arrays * words), at[0], 0
    if copied != 0:
        memory = c.malloc(copied + 64)
        if memory == 0:
            return 1
    at, free = at + 8, (memory + 63) & -64
    for k in range(arrays):
        whole, size = views + 8 * k * words, kind_of(record, k)[OF_SIZE]
        free = piece(axes, at, whole, own + 8 * k * words, free, size)
        at += 8 * (words + 1)
    status = machine.do(record[CODE], own, held[VALUES])
    if copied != 0:
        c.free(memory)
    return status


def piece(axes, at, whole, view, free, size):
    """Write the view of what a table says of an array; gives where memory is free from then on."""
    first, lengths = at + 16, at + 8 * (2 + axes)
    view[0] = whole[0]
    for axis in range(axes):
        step = whole[1 + axes + axis]
        view[1 + axis], view[1 + axes + axis] = lengths[axis], step
        view[0] += first[axis] * step
    if at[0] == 0:
        return free
    source, axis = view[0], axes - 1
    view[0] = free
    while axis >= 0:
        view[1 + axes + axis] = size
        size *= lengths[axis]
        axis -= 1
    filled(view[2 * axes], free, lengths, source, whole + 8 * (1 + axes), at[1], at[0])
    return (free + size + 63) & -64


def taken(record, arguments, words):
    """Write views of the arrays of a call, and its values; whether Python has raised nothing.

    A view is where an array begins, its shape and the bytes between elements; floats are in
    double precision.
    """
    for k in range(record[KINDS]):
        kind = kind_of(record, k)
        axes, at, argument = kind[OF_AXES], words + kind[OF_PLACE], arguments[k]
        if axes > 0:
            at[0] = argument[DATA]
            for axis in range(axes):
                at[1 + axis] = argument[SHAPE][axis]
                at[1 + axes + axis] = argument[STRIDES][axis]
        elif kind[OF_LETTER] == FLOAT:
            machine.put(at, c.PyFloat_AsDouble(np.float64, argument))
        elif kind[OF_LETTER] == COMPLEX:
            machine.put(at, c.PyComplex_RealAsDouble(np.float64, argument))
            machine.put(at + 8, c.PyComplex_ImagAsDouble(np.float64, argument))
        else:
            # It was seen to fit: a bool, or an integer with a sign or without one.
            at[0] = c.PyLong_AsUnsignedLongLongMask(argument)
    return c.PyErr_Occurred() == 0


def kind_of(record, k):
    """What an argument is."""
    return record + 8 * (FIRST + PER_KIND * k)


def pad(self, arguments, count):
    """Fill a block with elements of an array, and with a constant where it has none.

    The last argument is a table: how many axes there are, and from which to which place elements
    of a row follow each other; then, axis by axis from the last to that behind the stack, which
    element is at each place, or -1.
    """
    block, array, constant = arguments[0], arguments[1], arguments[2][DATA]
    told = arguments[3][DATA]
    size = block[STRIDES][told[0] - 1]
    thread = c.PyEval_SaveThread()
    filled(size, block[DATA], block[SHAPE], array[DATA], array[STRIDES], constant, told)
    c.PyEval_RestoreThread(thread)
    none = self[DATA][0]
    c.Py_IncRef(none)
    return none


def filled(size, to, shape, array, steps, constant, told):
    """As `pad`, of elements of a size; `steps` are the bytes to the next along each axis."""
    if size == 1:
        padded(np.uint8, 1, to, shape, array, steps, constant, told)
    elif size == 2:
        padded(np.uint16, 2, to, shape, array, steps, constant, told)
    elif size == 4:
        padded(np.uint32, 4, to, shape, array, steps, constant, told)
    elif size == 8:
        padded(np.uint64, 8, to, shape, array, steps, constant, told)
    else:
        padded(np.complex128, 16, to, shape, array, steps, constant, told)


def padded(kind, size, to, shape, array, steps, constant, told):
    """As `filled`, of elements that are as large as a number of a type."""
    last, columns = told[0] - 1, told + 24
    length, step = shape[last], steps[last]
    places, rows = machine.room(last), 1
    for axis in range(last):
        places[axis] = 0
        rows *= shape[axis]
    low = told[1] if step == size else length
    high = max(low, told[2])
    for _ in range(rows):
        at, missing, table = array + places[0] * steps[0], 0, columns + 8 * length
        axis = last - 1
        while axis > 0:
            source = table[places[axis]]
            missing = min(missing, source)
            at += source * steps[axis]
            table += 8 * shape[axis]
            axis -= 1
        first, stop = low, high
        if missing < 0:
            # There is no such row: all of it is the constant.
            first, stop = length, length
        for j in range(first):
            column(kind, to + j * size, at, columns[j] | missing, step, constant)
        c.memcpy(to + first * size, at + columns[first] * step, (stop - first) * size)
        for j in range(stop, length):
            column(kind, to + j * size, at, columns[j] | missing, step, constant)
        to += length * size
        axis = last - 1
        places[axis] += 1
        while axis > 0 and places[axis] == shape[axis]:
            places[axis] = 0
            axis -= 1
            places[axis] += 1


def column(kind, to, row, source, step, constant):
    """Copy an element of a row, or the constant."""
    at = row + source * step if source >= 0 else constant
    machine.put(to, machine.at(kind, at))


# Where the parts of a crew are [bytes].  What different threads write lies on lines of its own.
# It does one job at a time, each part of which is a piece of a table.
SPIN = 0
JOB = 64
GENERATION, OPEN = 128, 136
NEXT, FAILED = 192, 200
BUSY, OWNED = 256, 264
GATE, WAKE = 320, 448
LENGTH = 576

CLOCK = getattr(time, "CLOCK_MONOTONIC", 0)


def begin(crew):
    """Begin a crew at an address."""
    c.pthread_mutex_init(crew + GATE, 0)
    c.pthread_cond_init(crew + WAKE, 0)


def member(crew):
    """Wait for jobs, all life long: look for the next one for a moment, then sleep."""
    seen = 0
    while True:
        end = nanoseconds() + machine.get(crew + SPIN)
        while machine.get(crew + GENERATION) == seen and nanoseconds() < end:
            c.sched_yield()
        if machine.get(crew + GENERATION) == seen:
            c.pthread_mutex_lock(crew + GATE)
            while machine.get(crew + GENERATION) == seen:
                c.pthread_cond_wait(crew + WAKE, crew + GATE)
            c.pthread_mutex_unlock(crew + GATE)
        seen = machine.get(crew + GENERATION)
        machine.add(crew + BUSY, 1)
        # So many more may take part: who did not come before a job's end must leave it alone.
        if machine.add(crew + OPEN, -1) > 0:
            work(crew)
        machine.add(crew + BUSY, -1)


def work(crew):
    """Do parts of a job as long as there are any."""
    held = machine.get(crew + JOB)
    count = held[TABLE][COUNT]
    k = machine.add(crew + NEXT, 1)
    while k < count:
        machine.add(crew + FAILED, c.ninepoint_part(held, k))
        k = machine.add(crew + NEXT, 1)


def done(held):
    """Do the parts of a job, alone if a crew has another one or is none; 0 if all went well."""
    crew, status = held[CREW], 0
    if crew == 0 or machine.swap(crew + OWNED, 0, 1) != 0:
        for k in range(held[TABLE][COUNT]):
            status |= c.ninepoint_part(held, k)
        return status
    machine.set(crew + JOB, held)
    machine.set(crew + NEXT, 0)
    machine.set(crew + FAILED, 0)
    machine.set(crew + OPEN, held[THREADS] - 1)
    machine.add(crew + GENERATION, 1)
    c.pthread_mutex_lock(crew + GATE)
    c.pthread_cond_broadcast(crew + WAKE)
    c.pthread_mutex_unlock(crew + GATE)
    work(crew)
    machine.set(crew + OPEN, 0)
    # What others have begun ends soon, as a rule.
    end = nanoseconds() + machine.get(crew + SPIN)
    while machine.get(crew + BUSY) != 0:
        if nanoseconds() < end:
            c.sched_yield()
        else:
            c.usleep(50)
    status = machine.get(crew + FAILED)
    machine.set(crew + OWNED, 0)
    return status


def nanoseconds():
    """The time [ns]."""
    clock = machine.room(2)
    c.clock_gettime(CLOCK, clock)
    return clock[0] * 1_000_000_000 + clock[1]
