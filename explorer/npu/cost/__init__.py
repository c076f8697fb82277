"""Cycles predicted from the steps of tiles, with reasons.

steps.py           what a layer does one by one, how long each takes, and what it occupies
prediction.py      of a layer: `predict`
dram.py            what a transfer takes of a memory with bursts and rows
bounds.py          what a layer moves at least
network.py         of all layers of a network
tile_operands.py   which parts of its operands each tile reads and writes
"""
