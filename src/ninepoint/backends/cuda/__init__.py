"""A GPU as a back end: kernels as the text of CUDA C++, for whole arrays with their borders."""
