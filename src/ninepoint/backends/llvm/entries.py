"""How Python and NumPy call the machine code of kernels; one code for all of them.

    entry(*fields, *results, *coefficients, *scalars)             a block
    entry(*fields, *results, *coefficients, *scalars, told)       whole arrays, by commands
    together(crew, threads, *the same but for told, *lists)       lists shared among a crew
    elements                                                      the loop of a function of NumPy's

This is text for the compiler (see `modules`), as that of kernels is: it never runs as Python.
All numbers are words, addresses too; `c` has the functions of C, and `machine` what only machine
code does (see `printing`).

What an entry is bound to is an array of words, its *record*, which says where the kernel's machine
code is and of which kinds its arguments are (see `native`).  They read arrays where NumPy keeps
what describes them, refuse what does not fit, and let go of the interpreter's lock.  They call
Python's functions only, none of its data: those are not near enough to be reached.

A kernel is called with *views* of its arrays, each of which is an address, a shape and strides,
and with its *values*, which are coefficients and scalars, one after the other; it gives 0 if all
went well.  Commands take a *table* instead: the address of each array.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from .commands import STEPS
from .native import (
    ARRAYS,
    AXES,
    CODE,
    DATA,
    DTYPE,
    FIELDS,
    FIRST,
    FLAGS,
    ITEMSIZE,
    KIND,
    KINDS,
    LISTS,
    NDIM,
    NONE,
    OF_AXES,
    OF_FLAGS,
    OF_LETTER,
    OF_SIZE,
    OF_VALUE,
    ORDER,
    PART,
    PER_KIND,
    SHAPE,
    STRIDES,
    TYPE,
    TYPE_OF_ARRAYS,
    WORDS,
)

c: Any = None
machine: Any = None
f32, i64 = np.float32, np.int64

BOOL, UINT, FLOAT, COMPLEX, VOID, BIG = map(ord, "bufcV>")


def entry(self, arguments, count):
    """Compute a block, or whole arrays by one list of commands."""
    record = machine.word(self + DATA)
    kinds = machine.word(record + KINDS)
    whole = count - kinds
    if whole != 0 and whole != 1:
        return refused()
    arrays = machine.room(machine.word(record + ARRAYS) * (2 * machine.word(record + AXES) + 1))
    values = machine.room(machine.word(record + WORDS))
    if taken(record, arguments, whole, arrays, values) == 0:
        return 0
    if whole == 0:
        thread = c.PyEval_SaveThread()
        status = machine.do(machine.word(record + CODE), arrays, values)
    else:
        told = machine.word(arguments + 8 * kinds)
        if not fits(record, told, record + LISTS, 0):
            return refused()
        thread = c.PyEval_SaveThread()
        status = carried_out(told, arrays, machine.word(record + CODE), values)
    c.PyEval_RestoreThread(thread)
    return given(record, status)


def together(self, arguments, count):
    """Compute whole arrays by lists of commands, which a crew shares (see `..threads`).

    All is looked at first, so that the threads of a crew carry out the lists without Python.
    """
    record = machine.word(self + DATA)
    lists = 2 + machine.word(record + KINDS)
    if count < lists:
        return refused()
    crew = c.PyLong_AsLongLong(machine.word(arguments))
    threads = c.PyLong_AsLongLong(machine.word(arguments + 8))
    size, words = machine.word(record + ARRAYS), machine.word(record + WORDS)
    table, values = machine.room(size), machine.room(words)
    if taken(record, arguments + 16, 1, table, values) == 0:
        return 0
    for k in range(lists, count):
        if not fits(record, machine.word(arguments + 8 * k), record + LISTS, 0):
            return refused()
    # Who keeps all of it (see `runtime`) is told how many bytes stand at the first two places.
    held = machine.room(6)
    machine.put(held, table)
    machine.put(held + 8, values)
    machine.put(held + 16, arguments + 8 * lists)
    machine.put(held + 24, machine.word(record + CODE))
    machine.put(held + 32, 8 * size)
    machine.put(held + 40, 8 * words)
    thread = c.PyEval_SaveThread()
    do, part = machine.word(crew), machine.word(record + PART)
    status = machine.do(do, crew, threads, part, held, count - lists)
    c.PyEval_RestoreThread(thread)
    return given(record, status)


def part(held, index):
    """Carry out one of the lists; 0 if all went well."""
    told = machine.word(machine.word(held + 16) + 8 * index)
    table, values = machine.word(held), machine.word(held + 8)
    return carried_out(told, table, machine.word(held + 24), values)


def carried_out(told, table, code, values):
    """Carry out the commands of an array (see `commands`)."""
    return c.ninepoint_commands(machine.word(told + DATA), table, code, values)


def refused():
    """Raise that an argument does not fit."""
    c.PyErr_BadArgument(np.int32)
    return 0


def given(record, status):
    """None for Python, or what went wrong."""
    if status != 0:
        # Nothing else is raised by text that reads what it was proved to have.
        return c.PyErr_NoMemory()
    c.Py_IncRef(machine.word(record + NONE))
    return machine.word(record + NONE)


def taken(record, arguments, whole, arrays, values):
    """Write where the arrays of a call are, and its values; 0 if Python has raised.

    Whole arrays, which may lack the axis of the stack, are written as a table, others as views.
    """
    count = machine.word(record + ARRAYS)
    for k in range(machine.word(record + KINDS)):
        kind, argument = record + FIRST + PER_KIND * k, machine.word(arguments + 8 * k)
        axes, value = machine.word(kind + OF_AXES), values + machine.word(kind + OF_VALUE)
        if axes == 0:
            number(argument, kind, value)
        elif not fits(record, argument, kind, whole if k < count else 0):
            return refused()
        elif k >= count:
            described(argument, axes, value)
        elif whole == 0:
            described(argument, axes, arrays + 8 * k * (2 * axes + 1))
        else:
            machine.put(arrays + 8 * k, machine.word(argument + DATA))
    return 0 if c.PyErr_Occurred() != 0 else 1


def fits(record, argument, kind, fewer):
    """Whether an array has the axes, the dtype and the properties that the code relies on.

    It may have so many axes less.
    """
    if (
        c.PyType_IsSubtype(
            np.int32, machine.word(argument + TYPE), machine.word(record + TYPE_OF_ARRAYS)
        )
        == 0
    ):
        return False
    dtype, size = machine.word(argument + DTYPE), machine.word(kind + OF_SIZE)
    letter, wanted = i64(machine.at(np.uint8, dtype + KIND)), machine.word(kind + OF_LETTER)
    # To the code floats of 16 bits are integers.
    is_float = letter == FLOAT
    is_short = wanted == UINT and size == 2 and (is_float or letter == VOID)
    missing = machine.word(kind + OF_AXES) - i64(machine.at(np.int32, argument + NDIM))
    flags = machine.word(kind + OF_FLAGS)
    return (
        (missing == 0 or missing == fewer)
        and i64(machine.at(np.int32, argument + FLAGS)) & flags == flags
        and (letter == wanted or is_short)
        and machine.word(dtype + ITEMSIZE) == size
        and i64(machine.at(np.uint8, dtype + ORDER)) != BIG
    )


def described(array, axes, at):
    """Write where an array begins, its shape and the bytes between elements."""
    machine.put(at, machine.word(array + DATA))
    c.memcpy(at + 8, machine.word(array + SHAPE), 8 * axes)
    c.memcpy(at + 8 + 8 * axes, machine.word(array + STRIDES), 8 * axes)


def number(argument, kind, at):
    """Write a number of Python's in a type; what it raises stays to be asked for."""
    letter, size = machine.word(kind + OF_LETTER), machine.word(kind + OF_SIZE)
    if letter == FLOAT:
        real(c.PyFloat_AsDouble(np.float64, argument), size, at)
    elif letter == COMPLEX:
        size = size >> 1
        real(c.PyComplex_RealAsDouble(np.float64, argument), size, at)
        real(c.PyComplex_ImagAsDouble(np.float64, argument), size, at + size)
    elif letter == BOOL:
        machine.put(at, c.PyObject_IsTrue(np.int32, argument) > 0)
    elif letter == UINT:
        machine.put(at, c.PyLong_AsUnsignedLongLong(argument))
    else:
        machine.put(at, c.PyLong_AsLongLong(argument))


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
AT, STEP, SIZE, ROOM, PER_OPERAND = range(0, 40, 8)


def elements(arguments, sizes, steps, data):
    """Compute elements that lie anywhere, by a kernel of one axis that looks at no neighbour.

    `arguments` are where fields, numbers and results begin, `steps` how far it is from one element
    of each to the next, `sizes` how many there are; a number has one element.  They are computed
    as a row is.  What does not lie side by side, or is a result in the place of a field, comes and
    goes through a short block that stays in the cache: an element that stands for all is put there
    once.

    At `data` stand a word that is set where there was no memory, and the kernel's record.
    """
    record, length = machine.word(data + 8), machine.word(sizes)
    fields, arrays = machine.word(record + FIELDS), machine.word(record + ARRAYS)
    numbers = machine.word(record + KINDS) - arrays
    values = machine.room(machine.word(record + WORDS))
    for k in range(numbers):
        kind = record + FIRST + PER_KIND * (arrays + k)
        at, place = values + machine.word(kind + OF_VALUE), arguments + 8 * (fields + k)
        c.memcpy(at, machine.word(place), machine.word(kind + OF_SIZE))
    operands, views = machine.room(4 * arrays), machine.room(5 * arrays)
    block = length
    for k in range(arrays):
        one, view = operands + PER_OPERAND * k, views + 40 * k
        # NumPy has results behind all else.
        place = 8 * k if k < fields else 8 * (k + numbers)
        size = machine.word(record + FIRST + PER_KIND * k + OF_SIZE)
        machine.put(one + AT, machine.word(arguments + place))
        machine.put(one + STEP, machine.word(steps + place))
        machine.put(one + SIZE, size)
        machine.put(one + ROOM, 0)
        # The stack has one image.
        machine.put(view + 8, 1)
        machine.put(view + 24, 0)
        machine.put(view + 32, size)
        if machine.word(one + STEP) != size or meets(
            one, operands, fields if k >= fields else 0, length
        ):
            block = min(length, BLOCK)
            # It begins at a line of the cache.
            room = machine.room(((block * size) >> 3) + 8) + 63
            machine.put(one + ROOM, room & -64)
    failed, first, plane = 0, 0, machine.room(12)
    machine.put(plane, 1)
    machine.put(plane + STEPS, 0)
    machine.put(plane + 2 * STEPS, 0)
    while first < length:
        some = min(block, length - first)
        for k in range(arrays):
            one, view = operands + PER_OPERAND * k, views + 40 * k
            room, step = machine.word(one + ROOM), machine.word(one + STEP)
            at = machine.word(one + AT) + first * step
            if room != 0 and k < fields and (first == 0 or step != 0):
                size = machine.word(one + SIZE)
                copied(plane, some, size, room, size, at, step)
            machine.put(view, at if room == 0 else room)
            machine.put(view + 16, some)
        failed |= machine.do(machine.word(record + CODE), views, values)
        for k in range(fields, arrays):
            one = operands + PER_OPERAND * k
            room, step = machine.word(one + ROOM), machine.word(one + STEP)
            if room != 0:
                at = machine.word(one + AT) + first * step
                size = machine.word(one + SIZE)
                copied(plane, some, size, at, step, room, size)
        first += block
    if failed != 0:
        machine.put(data, 1)
    # Forget that a float was none, or too large: floats give no warnings.
    if EXCEPTIONS != 0 and c.fetestexcept(np.int32, EXCEPTIONS) != 0:
        c.feclearexcept(np.int32, EXCEPTIONS)
    return 0


def copied(plane, count, size, to, across, at, step):
    """Copy so many elements of a size, which lie so far from each other (see `commands`)."""
    machine.put(plane + 8, count)
    machine.put(plane + STEPS + 8, across)
    machine.put(plane + 2 * STEPS + 8, step)
    c.ninepoint_apart(size, to, at, plane)


def meets(one, operands, fields, length):
    """Whether a result may lie where one of so many fields does."""
    for k in range(fields):
        field = operands + PER_OPERAND * k
        if first_byte(one, length) < behind(field, length) and first_byte(field, length) < behind(
            one, length
        ):
            return True
    return False


def first_byte(one, length):
    """Where the first byte of all elements lies."""
    return machine.word(one + AT) + min(machine.word(one + STEP) * (length - 1), 0)


def behind(one, length):
    """What is behind their last byte."""
    way = max(machine.word(one + STEP) * (length - 1), 0)
    return machine.word(one + AT) + way + machine.word(one + SIZE)
