"""Which tiles a layer is cut into: all that are legal, what each takes at least, and a search.

axes.py           sums over the tiles of an axis
convolution.py    points of convolutions, with bounds
others.py         points of all other layers
searching.py      the search: `search_layer`
"""
