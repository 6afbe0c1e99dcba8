"""What all packages use: interrupts, tracebacks, limits, and what is remembered."""
