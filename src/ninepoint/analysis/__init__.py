"""What can be proved about a kernel."""
