"""What compiled code raises where an index is outside an array."""


class Outside(IndexError):
    """Its arguments say where: the function, the row below its `def`, and the array's name there.

    Object code that is kept on disk names this class.
    """
