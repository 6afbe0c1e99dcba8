"""How Python calls the machine code of kernels, and lists of commands for it; one code for all.

    entry(*fields, *results, *coefficients, *scalars)             a block
    entry(*the same, *lists)                                      whole arrays, by commands
    entry(*the same, *lists, crew, threads)                       lists shared among a crew

This is text for the compiler (see `native`), as that of kernels is: it never runs as Python.
All numbers are words, addresses too, and `at[k]` is the word so many words on; `c` has the
functions of C, and `machine` what only machine code does (see `printing`).

What an entry is bound to is an array of words, its *record*, which says where the kernel's machine
code is and of which kinds its arguments are (see below).  It reads arrays where NumPy keeps
what describes them, and lets go of the interpreter's lock; who calls it sees to it that arrays
are those that the kernel was compiled for.  It calls Python's functions only, none of its data:
those are not near enough to be reached.

A kernel is called with *views* of its arrays, each of which is an address, a shape and strides,
and with its *values*, which are coefficients and scalars, one after the other; it gives 0 if all
went well.  Commands take a *table* instead: the address of each array.

A kernel's own machine code computes a block whose neighbours are all there.  What a call takes
besides, that is padded blocks and what is written without being computed, is a list of commands,
made by `ninepoint.arrays.commands`.  What carries it out knows elements by their size, memory by
addresses, and a kernel by a function that computes a block.

    head      arrays of the caller, words of a view, bytes of memory for blocks, commands
    place     the number of a base, and bytes from there on
    move      0, the size of an element; the places that are written and read; the shape; for both
              the bytes to the next element along each axis
    run       1; for each array of the kernel its place, its shape and its strides
    ghosts    2, a kind of floats, how; how many terms there are, bytes to the next element and to
              the next alpha; the places of what is written, of what is mirrored, and of alpha and
              beta, of double precision; the shape; for each the bytes to the next along each axis

Bases are nothing, for what lies at an address, the arrays of the caller, and memory for blocks.
The shape of a move or of ghosts has `DEPTH` axes, the first of which may be 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

c: Any = None
machine: Any = None
f32 = np.float32

# Where the fields of an array are, in words, with 64-bit pointers, which is part of NumPy's binary
# interface: NumPy's own headers compile it into other packages.  They are `PyArrayObject_fields`
# in NumPy's ndarraytypes.h.
DATA, SHAPE, STRIDES = 2, 4, 5

# The record of a kernel, in words: where its machine code begins, where a part of a job does,
# None, how many arguments there are, arrays among them, axes of these, words of all values; then
# what each argument is [bytes].
CODE, PART, NONE, KINDS, ARRAYS, AXES, WORDS, FIRST = range(8)
# Of each its axes, the letter of its kind, its size, and where it is among the values.
OF_AXES, OF_LETTER, OF_SIZE, OF_VALUE, PER_KIND = range(5)

BOOL, UINT, FLOAT, COMPLEX = map(ord, "bufc")


def entry(self, arguments, count):
    """Compute a block, or whole arrays by one list of commands, or by several, among a crew.

    All is looked at first, so that the threads of a crew carry out the lists without Python.
    """
    record = self[DATA]
    more, lists = count - record[KINDS], arguments + 8 * record[KINDS]
    arrays = machine.room(record[ARRAYS] * (2 * record[AXES] + 1))
    values = machine.room(record[WORDS])
    if not taken(record, arguments, more == 0, arrays, values):
        return 0
    held = machine.room(4)
    held[0], held[1], held[2], held[3] = arrays, values, lists, record[CODE]
    crew, threads = integer(lists, more - 2, more), integer(lists, more - 1, more)
    thread = c.PyEval_SaveThread()
    if more == 0:
        status = machine.do(record[CODE], arrays, values)
    elif more == 1:
        status = machine.do(record[PART], held, 0)
    else:
        status = machine.do(crew[0], crew, threads, record[PART], held, more - 2)
    c.PyEval_RestoreThread(thread)
    if status != 0:
        # Nothing else is raised by text that reads what it was proved to have.
        return c.PyErr_NoMemory()
    c.Py_IncRef(record[NONE])
    return record[NONE]


def part(held, index):
    """Carry out one of the lists; 0 if all went well."""
    told = held[2][index]
    return commands(told[DATA], held[0], held[3], held[1])


def integer(arguments, k, count):
    """The integer at a place among so many arguments; 0 where there is none but an array."""
    return c.PyLong_AsLongLong(arguments[k]) if count > 1 else 0


def taken(record, arguments, is_block, arrays, values):
    """Write where the arrays of a call are, and its values; whether Python has raised nothing.

    Arrays of a block are written as views, whole ones as a table.
    """
    count = record[ARRAYS]
    for k in range(record[KINDS]):
        kind, argument = kind_of(record, k), arguments[k]
        axes, value = kind[OF_AXES], values + kind[OF_VALUE]
        if axes == 0:
            number(argument, kind, value)
        elif k >= count:
            described(argument, axes, value)
        elif is_block:
            described(argument, axes, arrays + 8 * k * (2 * axes + 1))
        else:
            arrays[k] = argument[DATA]
    return c.PyErr_Occurred() == 0


def kind_of(record, k):
    """What an argument is."""
    return record + 8 * (FIRST + PER_KIND * k)


def described(array, axes, at):
    """Write where an array begins, its shape and the bytes between elements."""
    at[0] = array[DATA]
    for k in range(axes):
        at[1 + k], at[1 + axes + k] = array[SHAPE][k], array[STRIDES][k]


def number(argument, kind, at):
    """Write a number of Python's in a type; what it raises stays to be asked for."""
    letter, size = kind[OF_LETTER], kind[OF_SIZE]
    if letter == FLOAT:
        real(c.PyFloat_AsDouble(np.float64, argument), size, at)
    elif letter == COMPLEX:
        size = size >> 1
        real(c.PyComplex_RealAsDouble(np.float64, argument), size, at)
        real(c.PyComplex_ImagAsDouble(np.float64, argument), size, at + size)
    elif letter == BOOL:
        machine.put(at, c.PyObject_IsTrue(np.int32, argument) > 0)
    elif letter == UINT:
        at[0] = c.PyLong_AsUnsignedLongLong(argument)
    else:
        at[0] = c.PyLong_AsLongLong(argument)


def real(value, size, at):
    """Write a float of so many bytes."""
    if size == 4:
        machine.put(at, f32(value))
    else:
        machine.put(at, value)


# Commands.

# Words of their head, and axes of moves and ghosts.
HEAD, DEPTH = 4, 5

# Bytes from the shape of a command to the first of its steps, and to those of the next array.
STEPS = 8 * DEPTH

# The commands, and words of each but its number; a run has more for each array.
MOVE, RUN, GHOSTS = range(3)
MOVE_WORDS, GHOSTS_WORDS = 1 + 2 * 2 + 3 * DEPTH, 5 + 4 * 2 + 5 * DEPTH


def commands(told, arrays, block, values):
    """Carry out the commands at an address; 0 if all went well.

    At `arrays` stand the addresses of the arrays of the caller; `block` is the function that
    computes a block, called with views of its arrays and with `values`.
    """
    given, size, memory = told[0], 8 * told[1], told[2]
    # Two lines of the cache, as blocks begin at one.
    begin = 8 * (given + 2) + given * size
    bases = c.malloc(begin + memory + 64)
    if bases == 0:
        return 1
    c.memcpy(bases + 8, arrays, 8 * given)
    bases[0], bases[given + 1] = 0, (bases + begin + 63) & -64
    views, at = bases + 8 * (given + 2), told + 8 * HEAD
    status = 0
    for _ in range(told[3]):
        kind = at[0]
        at += 8
        if kind == MOVE:
            move(bases, at)
            at += 8 * MOVE_WORDS
        elif kind == GHOSTS:
            ghosts(bases, at)
            at += 8 * GHOSTS_WORDS
        else:
            for k in range(given):
                view = views + k * size
                view[0] = placed(bases, at)
                c.memcpy(view + 8, at + 16, size - 8)
                at += size + 8
            status = machine.do(block, views, values)
            if status != 0:
                break
    c.free(bases)
    return status


def placed(bases, place):
    """The address of what a command says the place of."""
    return bases[place[0]] + place[1]


def far(steps, i, j, k, m):
    """How far a row is from the first one [bytes]; `steps` are those to the next along an axis."""
    return i * steps[0] + j * steps[1] + k * steps[2] + m * steps[3]


# Elements side by side are copied together from so many on.
SIDE_BY_SIDE = 8


def move(bases, command):
    """Move elements from one array to another."""
    size, to, at = command[0], placed(bases, command + 8), placed(bases, command + 24)
    if size == 1:
        moved(np.uint8, 1, to, at, command + 40)
    elif size == 2:
        moved(np.uint16, 2, to, at, command + 40)
    elif size == 4:
        moved(np.uint32, 4, to, at, command + 40)
    else:
        moved(np.uint64, 8, to, at, command + 40)


def moved(kind, size, to, at, shape):
    """Move elements that are numbers of a type, which lie anywhere."""
    steps, steps_at = shape + STEPS, shape + 2 * STEPS
    columns, across, across_at = shape[4], steps[4], steps_at[4]
    together = columns >= SIDE_BY_SIDE and across == size and across_at == size
    for i in range(shape[0]):
        for j in range(shape[1]):
            for k in range(shape[2]):
                for m in range(shape[3]):
                    there, here = to + far(steps, i, j, k, m), at + far(steps_at, i, j, k, m)
                    if together:
                        c.memcpy(there, here, columns * size)
                    else:
                        for n in range(columns):
                            machine.put(there + n * across, machine.at(kind, here + n * across_at))


# Ghosts are beta - mirrored, mirrored + beta, or alpha * mirrored + beta and further terms.
FACE, SLOPE, MIX = range(3)


def ghosts(bases, command):
    """Make ghosts of a kind of floats, with double precision."""
    kind = command[0]
    if kind == 0:
        ghosts_of(np.float32, np.float64, bases, command)
    elif kind == 1:
        ghosts_of(np.float64, np.float64, bases, command)
    elif kind == 2:
        ghosts_of(np.complex64, np.complex128, bases, command)
    else:
        ghosts_of(np.complex128, np.complex128, bases, command)


def ghosts_of(kind, wide, bases, command):
    """Make ghosts of a type, computed in a wide one."""
    shape = command + 40 + 4 * 16
    places = machine.room(4)
    for i in range(shape[0]):
        for j in range(shape[1]):
            for k in range(shape[2]):
                for m in range(shape[3]):
                    for n in range(4):
                        begin = placed(bases, command + 40 + 16 * n)
                        places[n] = begin + far(shape + STEPS * (n + 1), i, j, k, m)
                    for _ in range(shape[4]):
                        machine.put(places[0], kind(ghost(kind, wide, places, command)))
                        for n in range(4):
                            places[n] += shape[DEPTH * (n + 1) + 4]


def ghost(kind, wide, places, command):
    """One ghost, of what is mirrored, alpha and beta."""
    how, count, at, alpha = command[1], command[2], places[1], places[2]
    mirrored, more = wide(machine.at(kind, at)), machine.at(wide, places[3])
    if how == FACE:
        return more - mirrored
    if how == SLOPE:
        return mirrored + more
    made = machine.at(wide, alpha) * mirrored + more
    for _ in range(1, count):
        at += command[3]
        alpha += command[4]
        made += machine.at(wide, alpha) * wide(machine.at(kind, at))
    return made
