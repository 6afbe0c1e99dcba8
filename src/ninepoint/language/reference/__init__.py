"""The meaning of a stencil: what Python computes when its function is called at one point.

This package is the definition, the oracle of the tests, and the user's debugger.  The
user's own function is called element by element with small views of its arrays.  Of the
compiler it has nothing but what finds a text and what names stand for: no parser, no
intermediate form, no border arithmetic.  Where a back end disagrees, the back end is wrong, or
this changes and the changelog says so.

    number, functions    what the numbers of a kernel do
    views, world         what the user's function sees
    borders              what lies outside an array
    evaluate             the function called at every point
"""

from .evaluate import Setting, evaluate
from .number import store

__all__ = ["Setting", "evaluate", "store"]
