"""A format for tests: a text file of a few operators, with its weights in another one.

    toy                               toy weights
    weights net.numbers               w 3 2 0.5 -1 0 1 2 -2
    input x batch 3
    dense h x w b
    relu a h
    add y a a
    output y

Nodes have no names: they are lines. `importer.py` reads it, `reference.py` says who is right.
"""
