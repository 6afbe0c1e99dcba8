"""Iterations whose state is kept in parts, one in each of some processes."""
