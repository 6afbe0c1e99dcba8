"""Commands: machine code that carries out a list of moves and runs on whole arrays.

A kernel's own machine code computes a block whose neighbours are all there.  What a call takes
besides, that is padded blocks and what is written without being computed, is a list of commands,
made by `ninepoint.arrays.commands`.  The code here is one for all kernels: it knows elements by
their size, memory by addresses, and a kernel by a function that computes a block.

    head      arrays of the caller, words of a view, bytes of memory for blocks, commands
    place     the number of a base, and bytes from there on
    move      0, the size of an element; the places that are written and read; the shape; for both
              the bytes to the next element along each axis
    run       1; for each array of the kernel its place, its shape and its strides
    ghosts    2, a kind of floats, how; how many terms there are, bytes to the next element and to
              the next alpha; the places of what is written, of what is mirrored, and of alpha and
              beta, of double precision; the shape; for each the bytes to the next along each axis

Bases are nothing, for what lies at an address, the arrays of the caller, and memory for blocks.
The shape of a move or of ghosts has `AXES` axes, the first of which may be 1.

This is text for the compiler, as that of `entries` is: it never runs as Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

c: Any = None
machine: Any = None

# Words of the head, and axes of moves and ghosts.
HEAD, AXES = 4, 5

# Bytes from the shape of a command to the first of its steps, and to those of the next array.
STEPS = 8 * AXES

# The commands, and words of each but its number; a run has more for each array.
MOVE, RUN, GHOSTS = range(3)
MOVE_WORDS, GHOSTS_WORDS = 1 + 2 * 2 + 3 * AXES, 5 + 4 * 2 + 5 * AXES


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

# Elements that lie so many steps apart are taken out of whole vectors, whose bytes these are:
# those of a channel of a colour image, every second one, rows that run backwards.
VECTOR = 16


def move(bases, command):
    """Move elements from one array to another."""
    size, shape = command[0], command + 40
    to, at = placed(bases, command + 8), placed(bases, command + 24)
    steps, steps_at = shape + STEPS, shape + 2 * STEPS
    for i in range(shape[0]):
        for j in range(shape[1]):
            for k in range(shape[2]):
                there, here = to + far(steps, i, j, k, 0), at + far(steps_at, i, j, k, 0)
                c.ninepoint_apart(size, there, here, shape + 24)


def apart(size, to, at, plane):
    """Copy elements of a size, row by row.

    At `plane` stand rows and columns, then the bytes to the next of both, for the target and for
    the source, as far from each other as they are in a command.
    """
    if size == 1:
        one_by_one(np.uint8, 1, to, at, plane)
    elif size == 2:
        one_by_one(np.uint16, 2, to, at, plane)
    elif size == 4:
        one_by_one(np.uint32, 4, to, at, plane)
    else:
        one_by_one(np.uint64, 8, to, at, plane)
    return 0


def one_by_one(kind, size, to, at, plane):
    """As `apart`, of elements that are numbers of a type, which lie anywhere."""
    rows, columns, down, across = plane[0], plane[1], plane[AXES], plane[AXES + 1]
    down_at, across_at = plane[2 * AXES], plane[2 * AXES + 1]
    step, lanes, whole = across_at // size, VECTOR // size, 0
    together = columns >= SIDE_BY_SIDE and across == size and across_at == size
    fits = across == size and across_at == step * size and lanes > 2
    if fits and (step == -1 or 2 <= step <= 4):
        # What a vector holds beyond its last element lies before one that follows.
        whole = max(columns - 1, 0) // lanes * lanes
    for i in range(rows):
        there, here = to + i * down, at + i * down_at
        if together:
            c.memcpy(there, here, columns * size)
        else:
            j = 0
            while j < whole:
                picked(kind, size, there + j * size, here + j * across_at, step)
                j += lanes
            while j < columns:
                machine.put(there + j * across, machine.at(kind, here + j * across_at))
                j += 1


def picked(kind, size, to, at, step):
    """Copy a vector of elements that lie so many steps apart."""
    if step == 2:
        machine.pick(kind, 2, to, at)
    elif step == 3:
        machine.pick(kind, 3, to, at)
    elif step == 4:
        machine.pick(kind, 4, to, at)
    else:
        machine.pick(kind, -1, to, at + size - VECTOR)


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
                            places[n] += shape[AXES * (n + 1) + 4]


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
