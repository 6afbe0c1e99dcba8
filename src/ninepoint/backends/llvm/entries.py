"""How Python and NumPy call the machine code of kernels; one code for all of them.

    entry(*fields, *results, *coefficients, *scalars)             a block
    entry(*the same, *lists)                                      whole arrays, by commands
    entry(*the same, *lists, crew, threads)                       lists shared among a crew
    elements                                                      the loop of a function of NumPy's

This is text for the compiler (see `modules`), as that of kernels is: it never runs as Python.
All numbers are words, addresses too, and `at[k]` is the word so many words on; `c` has the
functions of C, and `machine` what only machine code does (see `printing`).

What an entry is bound to is an array of words, its *record*, which says where the kernel's machine
code is and of which kinds its arguments are (see below).  They read arrays where NumPy keeps
what describes them, and let go of the interpreter's lock; who calls them sees to it that arrays
are those that the kernel was compiled for.  They call Python's functions only, none of its data:
those are not near enough to be reached.

A kernel is called with *views* of its arrays, each of which is an address, a shape and strides,
and with its *values*, which are coefficients and scalars, one after the other; it gives 0 if all
went well.  Commands take a *table* instead: the address of each array.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from .commands import AXES as STEPS

c: Any = None
machine: Any = None
f32 = np.float32

# Where the fields of an array are, in words, with 64-bit pointers, which is part of NumPy's binary
# interface: NumPy's own headers compile it into other packages.  They are `PyArrayObject_fields`
# in NumPy's ndarraytypes.h.
DATA, SHAPE, STRIDES = 2, 4, 5

# The record of a kernel, in words: where its machine code begins, where a part of a job does,
# None, how many arguments there are, arrays and fields among them, axes of these, words of all
# values; then what each argument is [bytes].
CODE, PART, NONE, KINDS, ARRAYS, FIELDS, AXES, WORDS, FIRST = range(9)
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
        status = part(held, 0)
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
    return c.ninepoint_commands(told[DATA], held[0], held[3], held[1])


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


# The loop over elements, as NumPy calls that of a function of its own.

# So many elements are computed together where they are copied: some kilobytes stay in the cache.
# Column times matrix, 2048x2048 float32: 2.1 ms, where copies of 2 MB took 2.7 ms (Zen 5).
BLOCK = 1024

# What NumPy looks for after a loop, by the machine: invalid, divided by zero, over- and underflow.
EXCEPTIONS = {"x86_64": 0x1D, "AMD64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}.get(
    platform.machine(), 0
)

# The words of a field or a result here: its address, the bytes from element to element and of one,
# and room for a block of it, if it goes through that.
AT, STEP, SIZE, ROOM, PER_OPERAND = range(5)


def elements(arguments, sizes, steps, data):
    """Compute elements that lie anywhere, by a kernel of one axis that looks at no neighbour.

    `arguments` are where fields, numbers and results begin, `steps` how far it is from one element
    of each to the next, `sizes` how many there are; a number has one element.  They are computed
    as a row is.  What does not lie side by side, or is a result in the place of a field, comes and
    goes through a short block that stays in the cache: an element that stands for all is put there
    once.

    At `data` stand a word that is set where there was no memory, and the kernel's record.
    """
    record, length = data[1], sizes[0]
    fields, arrays = record[FIELDS], record[ARRAYS]
    numbers = record[KINDS] - arrays
    values = machine.room(record[WORDS])
    for k in range(numbers):
        kind = kind_of(record, arrays + k)
        c.memcpy(values + kind[OF_VALUE], arguments[fields + k], kind[OF_SIZE])
    operands, views = machine.room(PER_OPERAND * arrays), machine.room(5 * arrays)
    block = length
    for k in range(arrays):
        one, view, size = operand(operands, k), views + 40 * k, kind_of(record, k)[OF_SIZE]
        # NumPy has results behind all else.
        place = k if k < fields else k + numbers
        one[AT], one[STEP], one[SIZE], one[ROOM] = arguments[place], steps[place], size, 0
        # The stack has one image.
        view[1], view[3], view[4] = 1, 0, size
        if one[STEP] != size or meets(one, operands, fields if k >= fields else 0, length):
            block = min(length, BLOCK)
            # It begins at a line of the cache.
            one[ROOM] = (machine.room((block * size >> 3) + 8) + 63) & -64
    first, plane = 0, machine.room(3 * STEPS)
    plane[0], plane[STEPS], plane[2 * STEPS] = 1, 0, 0
    while first < length:
        some = min(block, length - first)
        for k in range(arrays):
            one, view = operand(operands, k), views + 40 * k
            if one[ROOM] != 0 and k < fields and (first == 0 or one[STEP] != 0):
                copied(one, first, some, plane, False)
            view[0] = one[ROOM] if one[ROOM] != 0 else one[AT] + first * one[STEP]
            view[2] = some
        data[0] = data[0] | machine.do(record[CODE], views, values)
        for k in range(fields, arrays):
            if operand(operands, k)[ROOM] != 0:
                copied(operand(operands, k), first, some, plane, True)
        first += block
    # Forget that a float was none, or too large: floats give no warnings.
    if EXCEPTIONS != 0 and c.fetestexcept(np.int32, EXCEPTIONS) != 0:
        c.feclearexcept(np.int32, EXCEPTIONS)
    return 0


def operand(operands, k):
    """The words of a field or a result."""
    return operands + 8 * PER_OPERAND * k


def copied(one, first, count, plane, back):
    """Copy so many elements from `first` on into their room, or back (see `commands.apart`)."""
    at, step, size, room = one[AT] + first * one[STEP], one[STEP], one[SIZE], one[ROOM]
    plane[1] = count
    plane[STEPS + 1], plane[2 * STEPS + 1] = (step if back else size), (size if back else step)
    c.ninepoint_apart(size, at if back else room, room if back else at, plane)


def meets(one, operands, fields, length):
    """Whether a result may lie where one of so many fields does."""
    begin, end = first_byte(one, length), behind(one, length)
    for k in range(fields):
        other = operand(operands, k)
        if begin < behind(other, length) and first_byte(other, length) < end:
            return True
    return False


def first_byte(one, length):
    """Where the first byte of all elements lies."""
    return one[AT] + min(one[STEP] * (length - 1), 0)


def behind(one, length):
    """What is behind their last byte."""
    return one[AT] + max(one[STEP] * (length - 1), 0) + one[SIZE]
