"""Results out, of any size: `save` writes an array to a store, unit by unit.

    writing    save, and what each format asks for      contents   what is saved, taken apart
    cutting    chunks, shards, units                     units      what one task writes whole
    running    begin, go on with, finish a store         tasks      a task for each unit
    journal    which units are written                   meaning    what is being computed
    zarr       stores of Zarr                            folders    that appear when they are whole

The libraries of the formats are imported when they are first needed.
"""

from __future__ import annotations

from .writing import save

__all__ = ["save"]
