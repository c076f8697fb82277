"""NPUs: machines that are driven by instructions, as their target files describe them.

    machine.py        what a target file comes to: elements, depths, regions, rates
    instruction_sets.py    what a set of instructions can say: vta, full, and one's own
    formats.py        where each field of an instruction lies
    instructions.py   instructions as records
    encoding.py       records <-> bytes
    assembly.py       records <-> text
    checking/         deadlocks, races and bounds, found before anything runs

Compiler and simulator both stand on this and on nothing of each other.
"""
