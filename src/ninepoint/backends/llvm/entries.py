"""How Python and NumPy call the machine code of kernels; one code for all of them.

    entry(*fields, *results, *coefficients, *scalars)             a block
    entry(*the same, crew, threads, axis, parts, step)            one shared among a crew
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
went well.
"""

from __future__ import annotations

import platform
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
# None, how many arguments there are, arrays and fields among them, axes of these, words of all
# values; then what each argument is [bytes].
CODE, PART, NONE, KINDS, ARRAYS, FIELDS, AXES, WORDS, FIRST = range(9)
# Of each its axes, the letter of its kind, its size, and where it is among the values.
OF_AXES, OF_LETTER, OF_SIZE, OF_VALUE, PER_KIND = range(5)

BOOL, UINT, FLOAT, COMPLEX = map(ord, "bufc")


# What a part of a job is told: a record, views, values, and then the crew, how many threads take
# part, an axis, how many parts there are along it, and how many elements of fields apart two
# results are.
RECORD, VIEWS, VALUES, CREW, THREADS, AXIS, PARTS, STRIDE, TOLD = range(9)


def entry(self, arguments, count):
    """Compute a block, alone or among a crew, whose parts of it are cut along an axis.

    All is looked at first, so that the threads of a crew compute without Python.
    """
    record, held = self[DATA], machine.room(TOLD)
    kinds = record[KINDS]
    views = machine.room(record[ARRAYS] * (2 * record[AXES] + 1))
    values = machine.room(record[WORDS])
    held[RECORD], held[VIEWS], held[VALUES] = record, views, values
    for k in range(count - kinds):
        held[CREW + k] = c.PyLong_AsLongLong(arguments[kinds + k])
    if not taken(record, arguments, views, values):
        return 0
    thread = c.PyEval_SaveThread()
    if count == kinds:
        status = machine.do(record[CODE], views, values)
    else:
        crew = held[CREW]
        status = machine.do(crew[0], crew, held[THREADS], record[PART], held, held[PARTS])
    c.PyEval_RestoreThread(thread)
    if status != 0:
        # Nothing else is raised by text that reads what it was proved to have.
        return c.PyErr_NoMemory()
    c.Py_IncRef(record[NONE])
    return record[NONE]


def part(held, index):
    """Compute one of the parts of a block; 0 if all went well."""
    record, axis, parts = held[RECORD], held[AXIS], held[PARTS]
    arrays, axes, fields = record[ARRAYS], record[AXES], record[FIELDS]
    words = 2 * axes + 1
    views = machine.room(arrays * words)
    c.memcpy(views, held[VIEWS], 8 * arrays * words)
    # All results are as long.
    length = views[fields * words + 1 + axis]
    first, last = length * index // parts, length * (index + 1) // parts
    for k in range(arrays):
        view, step = views + 8 * k * words, held[STRIDE] if k < fields else 1
        view[0] += first * step * view[1 + axes + axis]
        view[1 + axis] -= (length - last + first) * step
    return machine.do(record[CODE], views, held[VALUES])


def taken(record, arguments, views, values):
    """Write views of the arrays of a call, and its values; whether Python has raised nothing."""
    count = record[ARRAYS]
    for k in range(record[KINDS]):
        kind, argument = kind_of(record, k), arguments[k]
        axes, value = kind[OF_AXES], values + kind[OF_VALUE]
        if axes == 0:
            number(argument, kind, value)
        elif k >= count:
            described(argument, axes, value)
        else:
            described(argument, axes, views + 8 * k * (2 * axes + 1))
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
    if size == 1:
        padded(np.uint8, block, array, constant, told)
    elif size == 2:
        padded(np.uint16, block, array, constant, told)
    elif size == 4:
        padded(np.uint32, block, array, constant, told)
    elif size == 8:
        padded(np.uint64, block, array, constant, told)
    else:
        padded(np.complex128, block, array, constant, told)
    c.PyEval_RestoreThread(thread)
    none = self[DATA][0]
    c.Py_IncRef(none)
    return none


def padded(kind, block, array, constant, told):
    """As `pad`, of elements that are as large as a number of a type."""
    shape, steps, last, columns = block[SHAPE], array[STRIDES], told[0] - 1, told + 24
    length, step, size, to = shape[last], steps[last], block[STRIDES][last], block[DATA]
    places, rows = machine.room(last), 1
    for axis in range(last):
        places[axis] = 0
        rows *= shape[axis]
    low = told[1] if step == size else length
    high = max(low, told[2])
    for _ in range(rows):
        at, missing, table = array[DATA] + places[0] * steps[0], 0, columns + 8 * length
        axis = last - 1
        while axis > 0:
            source = table[places[axis]]
            missing |= source
            at += source * steps[axis]
            table += 8 * shape[axis]
            axis -= 1
        if missing < 0:
            for j in range(length):
                machine.put(to + j * size, machine.at(kind, constant))
        else:
            for j in range(low):
                column(kind, to + j * size, at, columns[j], step, constant)
            c.memcpy(to + low * size, at + columns[low] * step, (high - low) * size)
            for j in range(high, length):
                column(kind, to + j * size, at, columns[j], step, constant)
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
    first = 0
    while first < length:
        some = min(block, length - first)
        for k in range(arrays):
            one, view = operand(operands, k), views + 40 * k
            if one[ROOM] != 0 and k < fields and (first == 0 or one[STEP] != 0):
                copied(one, first, some, False)
            view[0] = one[ROOM] if one[ROOM] != 0 else one[AT] + first * one[STEP]
            view[2] = some
        data[0] = data[0] | machine.do(record[CODE], views, values)
        for k in range(fields, arrays):
            if operand(operands, k)[ROOM] != 0:
                copied(operand(operands, k), first, some, True)
        first += block
    # Forget that a float was none, or too large: floats give no warnings.
    if EXCEPTIONS != 0 and c.fetestexcept(np.int32, EXCEPTIONS) != 0:
        c.feclearexcept(np.int32, EXCEPTIONS)
    return 0


def operand(operands, k):
    """The words of a field or a result."""
    return operands + 8 * PER_OPERAND * k


def copied(one, first, count, back):
    """Copy so many elements from `first` on into their room, or back."""
    there, far, size, room = one[AT] + first * one[STEP], one[STEP], one[SIZE], one[ROOM]
    to, at = there if back else room, room if back else there
    step, step_at = far if back else size, size if back else far
    if far == size:
        c.memcpy(to, at, count * size)
    elif size == 1:
        moved(np.uint8, count, to, step, at, step_at)
    elif size == 2:
        moved(np.uint16, count, to, step, at, step_at)
    elif size == 4:
        moved(np.uint32, count, to, step, at, step_at)
    elif size == 8:
        moved(np.uint64, count, to, step, at, step_at)
    else:
        moved(np.complex128, count, to, step, at, step_at)


def moved(kind, count, to, step, at, step_at):
    """Copy elements that lie so many bytes apart."""
    for k in range(count):
        machine.put(to + k * step, machine.at(kind, at + k * step_at))


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
