"""What a kernel is: its source, its tree, its types, its meaning."""
