"""The loop language: what a compiled program does to memory, as data, and its printers."""
