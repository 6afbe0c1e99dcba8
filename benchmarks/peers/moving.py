"""Bottleneck and Numbagg: moving windows that end at the point, and know NaN."""

from __future__ import annotations

from functools import partial

from .. import peers

bottleneck = partial(peers.giving, "Bottleneck", "bottleneck", nan=True, interior=True)
numbagg = partial(peers.giving, "Numbagg", "numbagg", nan=True, interior=True)
