"""How layers are cut into tiles, of which the scratchpads hold two, or one.

convolution.py, matrices.py, vector.py    by engine
chunks.py         steps of a convolution, and what each waits for
bands.py          blocks of channels that belong together
scratchpads.py    where buffers lie in the banks
layouts.py        weights and constants as the array takes them
"""
