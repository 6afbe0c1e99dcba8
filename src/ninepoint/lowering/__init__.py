"""From a kernel to loops: the algorithm, the machine types, the text."""
