"""What users hold: stencils and functions of points, and their calls."""
