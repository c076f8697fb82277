"""Quantization: from ranges of tensors to quantized types.

    histogram   what was seen of a tensor, in bounded memory
    methods     a threshold out of it: min-max, percentile, KL, MSE, ACIQ
    table       thresholds and modes by tensor, in files, too
    passes      the program with `top.quantize` and `top.dequantize` around what has a threshold

Running a model over data stands in `explorer/tuning/calibration.py`.
"""
