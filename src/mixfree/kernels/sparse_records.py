"""The storage of a coordinate's levels, for :mod:`mixfree.kernels.sparse_ladder`.

A coordinate has a record of its levels from its second block on: the halves that wait as a stack,
the lowest on top, and from the end backwards the U_j that may not be zero. Its cell has two packed
integers, the mark and the room.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mixfree.kernels.jit import apart, inline
from mixfree.kernels.memory import LINE
from mixfree.kernels.sparse import LISTED, certain

# Places in a record: a bit for every level whose first half waits, Σ_j max(0, U_j), the sum of
# (λg)² over the last block if it has several gradients, and the halves with their sums of squares.
WAITS, ABOVE, DUE, HALVES = range(4)
SLOT, LEAST = LINE // 8, 3  # numbers in a slot, and slots in the smallest record
# A mark, which is 0 until the coordinate is touched: the last block, whether it has several
# gradients, and a one. A room: the record's first slot, its size, the level of its first U_j, the
# number of its U_j, and that of its halves. The record at 0 is zero, and belongs to no coordinate.
SEVERAL, _TOUCHED, _BLOCK = 2, 1, 2
_COUNT, _FIRST, _SIZE, _SLOT = 7, 14, 21, 26
USED = LISTED + 1  # place in counts: how many slots are in use


@intrinsic
def highest_bit(typing_context, value):
    """Place of the highest bit of a positive integer."""

    def codegen(context, builder, signature, arguments):
        undefined_for_zero = ir.Constant(ir.IntType(1), 1)
        zeros = builder.ctlz(arguments[0], undefined_for_zero)
        return builder.sub(ir.Constant(zeros.type, 63), zeros)

    return types.int64(types.int64), codegen


@intrinsic
def lowest_bit(typing_context, value):
    """Place of the lowest bit of an integer; 64 if there is none."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), codegen


@inline
def block_of(mark):
    """The block in which the coordinate was last touched."""
    return mark >> _BLOCK


@inline
def has_several(mark):
    """Whether that block has several gradients."""
    return (mark & SEVERAL) != 0


@inline
def mark_of(block, several):
    """Pack the block in which a coordinate was last touched into a mark."""
    return block << _BLOCK | several * SEVERAL | _TOUCHED


@inline
def slot_of(room):
    """The record's first slot."""
    return room >> _SLOT


@inline
def slots_of(room):
    """The number of its slots."""
    return room >> _SIZE & 31


@inline
def place_of(room):
    """Where the record begins."""
    return slot_of(room) * SLOT


@inline
def size_of(room):
    """Numbers that the record has room for."""
    return SLOT * slots_of(room)


@inline
def first_of(room):
    """The level of the first U_j."""
    return room >> _FIRST & 127


@inline
def count_of(room):
    """The number of U_j."""
    return room >> _COUNT & 127


@inline
def depth_of(room):
    """The number of halves that wait."""
    return room & 127


@inline
def room_of(slot, size, first, count, depth):
    """Pack the first slot, the size in slots and the contents of a record into a room."""
    return slot << _SLOT | size << _SIZE | first << _FIRST | count << _COUNT | depth


@apart
def make_room(levels, counts, room, first, end):
    """Let the record have room for U_j from ``first`` to before ``end`` and one more half."""
    old, old_first, count, depth = place_of(room), first_of(room), count_of(room), depth_of(room)
    if count == 0:
        old_first, end = first, max(first, end)
    elif first < end:
        first, end = min(first, old_first), max(end, old_first + count)
    else:
        first, end = old_first, old_first + count
    size, slot, old_end = slots_of(room), slot_of(room), old + size_of(room) - 1
    numbers = HALVES + 2 * (depth + 1) + end - first
    if numbers > SLOT * size:
        size = max((numbers + SLOT - 1) // SLOT, (3 * size + 1) // 2, LEAST)
        slot = counts[USED]
        counts[USED] += size
        for s in range(HALVES + 2 * depth):
            levels[certain(slot * SLOT + s)] = levels[certain(old + s)]
    new_end, rise = (slot + size) * SLOT - 1, old_first - first
    for i in range(count - 1, -1, -1):  # those at the end first, since both may be one record
        levels[certain(new_end - i - rise)] = levels[certain(old_end - i)]
    for i in range(rise):
        levels[certain(new_end - i)] = 0.0
    for i in range(rise + count, end - first):
        levels[certain(new_end - i)] = 0.0
    return room_of(slot, size, first, end - first, depth)


@inline
def has_room(room, first, end):
    """Whether the record has all U_j from ``first`` to before ``end``, and room for a half."""
    inside = first_of(room) <= first and end <= first_of(room) + count_of(room)
    return (inside or first >= end) and (
        HALVES + 2 * (depth_of(room) + 1) + count_of(room) <= size_of(room)
    )
