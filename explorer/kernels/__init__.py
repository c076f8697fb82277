"""Kernels: from compute definitions to loop nests with a schedule, and on to C and OpenCL C.

lowering.py     linalg.generic -> textbook affine nests
steps/          named, checked transformations of loop nests
schedules/      which steps a kernel gets
phases.py       the parallel sections of the result
"""
