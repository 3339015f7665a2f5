"""The C++ backend: what all kernels share, the library built from them, and the script that builds it."""
