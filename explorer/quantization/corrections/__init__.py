"""Corrections: what makes a quantized program more like the float one, each a pass before it.

    record               what calibration found out for them, in a file beside the table
    seams                where factors per channel can go from one operation's weights to another's
    equalize_layers      the pass that makes ranges of weights alike
    smooth_activations   the pass that takes outliers of channels out of activations
    rounding, moments    which neighbour of a weight makes the least error of the sums
    round_weights        the pass that takes these
    correct_bias         the pass that takes the mean error of sums away

What needs data is found by `explorer/tuning/correcting.py`; the passes apply what stands in the
record, so that a program is made of files alone.
"""
