"""From a kernel to one whose loops are easily written: the algorithm, what is kept, the order."""
