"""Executes on the CPU the PTX that NVRTC makes of the kernels, and looks for what a GPU would not report.

``parse`` reads PTX; ``operations`` has what an instruction computes; ``memory`` has the address spaces and their
checks; ``machine`` schedules the threads; ``runner`` runs the cases of ``benchmarks.gpu``. The source is NVIDIA's
"Parallel Thread Execution ISA", version 7.8, which NVRTC 11.8 writes.
"""
