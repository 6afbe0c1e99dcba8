"""Sorting, for generated text: elements in order, and the places of a window that slides.

    3.5 1.0 2.5 nan 0.5        places 3 1 2 4 0, of which the first 4 are no NaN
    window of the first 3      bits 1 2 3 of a set: the median has place 2, and is 2.5

Each element has a place of its own, also among equal ones, so that a set of places says all of a
window.
"""

from __future__ import annotations

from numba.core import types
from numba.extending import lower_builtin, register_jitable, type_callable
from numba.np.arrayobj import make_array, populate_array

from .support import i64, u64


@register_jitable
def keyed(line, first, length, keys, at, masks):
    """Write the keys of some elements of a line, given by their bits; how many are no NaN.

    Keys are unsigned and in the order of the elements; NaN has the greatest.
    """
    top, positive, negative, most = masks[0], masks[1], masks[2], masks[3]
    full = top | (top - u64(1))
    valid = length
    for k in range(length):
        bits = u64(line[first + k])
        key = bits ^ (negative if bits & top else positive)
        if key > most or key < full - most:
            key = full
            valid -= 1
        keys[at + k] = key
    return valid


@register_jitable
def ordered(keys, order, other_keys, other_order, counts, length):
    """Keys in order, and where each stood: in the first two arrays or in the others.

    Byte by byte from the lowest; one that all keys have in common takes no pass.
    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.5, algorithm R.
    """
    for k in range(counts.size):
        counts[k] = 0
    for k in range(length):
        key = u64(keys[k])
        order[k] = k
        for byte in range(keys.itemsize):
            counts[(byte << 8) + i64(key >> u64(byte << 3) & u64(255))] += 1
    for byte in range(keys.itemsize):
        shift, first = u64(byte << 3), byte << 8
        if counts[first + i64(u64(keys[0]) >> shift & u64(255))] == length:
            continue
        before = 0
        for k in range(first, first + 256):
            count = counts[k]
            counts[k] = before
            before += count
        for k in range(length):
            key = u64(keys[k])
            digit = first + i64(key >> shift & u64(255))
            place = counts[digit]
            counts[digit] = place + 1
            other_keys[place] = key
            other_order[place] = order[k]
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
    return keys, order


@register_jitable
def slid(keys, masks, ranks, inside, words, runs, starts, depth, down, wide, width, lanes, rank,
         valid, made, at, second):  # fmt: skip
    """Write the element of some rank at each point of a row, and if `second` the one after it.

    `ranks` are the places of a tile's elements among its `keys` in order, `inside` the set of
    those in the window; `runs` say of each run of the window its plane, its row, where it begins
    and where it ends.  Elements are written as their bits, and NaN where the window holds one.
    """
    count = runs.size // 4
    for r in range(count):
        first = (runs[4 * r] * depth + runs[4 * r + 1] + down) * wide
        starts[2 * r] = first + runs[4 * r + 2]
        starts[2 * r + 1] = first + runs[4 * r + 3]
    middle = 0
    for c in range(lanes):
        for k in range(words):
            inside[k] = u64(0)
        below, strange = i64(0), i64(0)
        for r in range(count):
            k = starts[2 * r] + c
            while k < starts[2 * r + 1] + c:
                place = i64(ranks[k])
                inside[place >> 6] |= u64(1) << u64(place & 63)
                below += i64((place >> 6) < middle)
                strange += i64(place >= valid)
                k += lanes
        j = c
        while j < width:
            while below > rank:
                middle -= 1
                below -= ones(inside[middle])
            some = ones(inside[middle])
            while below + some <= rank:
                below += some
                middle += 1
                some = ones(inside[middle])
            word, left = middle, inside[middle]
            for _ in range(rank - below):
                left &= left - u64(1)
            for k in range(2 if second else 1):
                while left == u64(0):
                    word += 1
                    left = inside[word]
                key = u64(keys[(word << 6) + ones((left & (~left + u64(1))) - u64(1))])
                bits = key ^ (masks[1] if key & masks[0] else masks[2])
                made[at + k * second + j] = masks[4] if strange else bits
                left &= left - u64(1)
            if j + lanes < width:
                # What leaves and what enters, by turns.
                for r in range(2 * count):
                    place = i64(ranks[starts[r] + j])
                    inside[place >> 6] ^= u64(1) << u64(place & 63)
                    sign = ((r & 1) << 1) - 1
                    below += sign * i64((place >> 6) < middle)
                    strange += sign * i64(place >= valid)
            j += lanes


def ones(word):
    """How many bits of a word are set."""
    return int(word).bit_count()


def same_bits(row, like):
    """A row as elements of the type of another, of the same size."""
    return row.view(like.dtype)


@type_callable(ones)
def _type_ones(context):
    return lambda word: types.int64


@lower_builtin(ones, types.uint64)
def _ones(context, builder, signature, args):
    return builder.ctpop(args[0])


@type_callable(same_bits)
def _type_same_bits(context):
    def typer(row, like):
        return types.Array(like.dtype, 1, "C", readonly=not row.mutable)

    return typer


@lower_builtin(same_bits, types.Array, types.Array)
def _same_bits(context, builder, signature, args):
    source = make_array(signature.args[0])(context, builder, args[0])
    view = make_array(signature.return_type)(context, builder)
    populate_array(
        view,
        data=builder.bitcast(source.data, view.data.type),
        shape=source.shape,
        strides=source.strides,
        itemsize=source.itemsize,
        meminfo=None,
        parent=None,
    )
    return view._getvalue()
