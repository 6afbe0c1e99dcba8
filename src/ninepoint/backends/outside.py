"""How compiled code says that an index is outside."""

# A read outside the neighborhood is written down as one number: that of the read plus one,
# times SITE, plus the offset, which is cut to -REACH .. REACH.
SITE = 2**33
REACH = 2**31 - 1


class Outside(IndexError):
    """An index outside an array.

    Its arguments say where: the function, the row below its `def`, and the array's name there.
    Object code that is kept on disk names this class.
    """
