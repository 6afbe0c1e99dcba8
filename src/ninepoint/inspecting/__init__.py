"""Looking inside: what a stencil is compiled to, why, and how fast it is."""
