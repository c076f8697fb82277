"""Tiled layers as instructions, with the tokens of double buffering.

compiling.py      any layer as a program with its image: `compile_layer`
stream.py         what all write instructions with
convolution.py, partition.py, matrices.py                    of the array
vector.py, window.py, elementwise.py, row.py                 of the vector engine
addresses.py      where tensors and constants lie in global memory
micro_operations.py    micro-operations, and what of them lies in their scratchpad
ir_layers.py      layers in the IR
"""
