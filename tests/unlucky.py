"""Unlucky names: those that generated text, or a call, has for something else as well."""

import re
from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

import kernels

# Of the text's own: words, what is numbered, what is derived from a stage or an operation.
TEXT = """
    b i j d k n i0 many rest value row row_function padded aligned range np math
    select nan inf f32 i32 b1 float32 band band_row band_rows out out0 o0 v0 t0 x0 x_0 v0_0
    v0_row v0_rows v0_add v0_in v0_sum t0_sum w0 r0 r0_0 u_0 u_c0 u0_ uc_ x_c0 s0_ t0s0_
    v0_s0 g0_ t0g0_ v0_g0 t0_g0 t0_g0_a_0 k0_ n1 n2 ends1 constant0 before1 after1 ended1
    live_t0 fine_v0_row
""".split()

# Of Python's, of a call's and of this package's; some only look like that.
PYTHON = (
    "len max sum abs int float round print object self cls match case type _ __ __a __a__ é vs "
    "name stencil Any args named fields values graph axis schedule x1 x_ x__ x1_ "
    "stage stage_0 stage_2 lap whole kernel function"
).split()

NAMES = (*TEXT, *PYTHON)

# Options of every call, which a stage may be called, but no parameter.
OPTIONS = "boundary cval axes dims out dtype overflow threads".split()

_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")


def words(source: str) -> set[str]:
    """The names in a text."""
    return set(re.findall(r"\w+", source))


def drawn(rng: Random, taken: Collection[str], plain: str, stage: bool = False) -> str:
    """A name that is not taken: half of them unlucky, else `plain`."""
    names = [*NAMES, *OPTIONS] if stage else [name for name in NAMES if name not in OPTIONS]
    free = [name for name in names if name not in taken]
    while plain in taken:
        plain += "_"
    return rng.choice(free) if rng.random() < 0.5 else plain


def renamed(rng: Random, case: kernels.Case) -> kernels.Case:
    """The same kernel, whose parameters have other names."""
    taken = words(case.source)
    parameters = [*case.fields, *case.standard, *case.scalars]
    new: dict[str, str] = {}
    for name in parameters:
        new[name] = drawn(rng, taken - {name}, name)
        taken.add(new[name])
    source = _WORD.sub(lambda found: new.get(found.group(), found.group()), case.source)

    def mapped(values: dict[str, Any]) -> dict[str, Any]:
        return {new[name]: value for name, value in values.items()}

    standard = mapped(case.standard)
    changed = {"source": source, "fields": mapped(case.fields), "standard": standard}
    options = {"standard_indexing": tuple(standard)} if standard else {}
    return replace(case, **changed, scalars=mapped(case.scalars), options=options)
