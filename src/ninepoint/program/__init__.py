"""What is computed, on no arrays yet: definitions, calls, graphs, what is done together."""
