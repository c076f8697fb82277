"""What layers are: records that compute in NumPy, and operations of a program as such.

    layer.py      what a layer is
    convolution.py    a convolution in integers, and its meaning in NumPy
    elementwise.py    sums, products and maxima of two tensors with scales of their own
    partition.py  several convolutions that write parts of one result
    matrices.py   products of matrices that are computed, and transpositions
    rows.py       what makes rows of all channels, of which softmax.py and normalization.py are
    windows.py    maxima of windows and functions by table; lines.py: tables as sums of lines
    tensors.py    tensors in global memory, in the one layout of all layers
    accesses.py   how layers of the vector engine read their operands
    borders.py    padding that loads cannot write
    stated_requantization.py      factors that a file states, where the machine shifts
    requantization_parameters.py  factors as the machine's own scheme knows them
    fields.py     records as fields by path, and back

and of operations of a quantized program:

    from_operations.py    the layers that compute an operation
    fusion.py             what layers read through
    products.py, sums.py, averages.py, fixed_points.py, computed_matrices.py, data_movement.py
    value_layout.py       how values lie in global memory
"""
