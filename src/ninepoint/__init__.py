"""Stencils for arrays of any kind."""
