"""Numbers coded by R. F. Rice: small ones take few bits, and nothing is lost.

    data = coded(numbers, bits=8)          u8: a parameter, then the codes
    decoded(data, count, bits=8)           the numbers again

A number becomes z = 2 n, or -2 n - 1 of a negative one. With the parameter k, z / 2^k is written in
ones and a zero after them, then the k low bits of z. Where it were `ESCAPE` ones or more, there are
`ESCAPE` ones and all bits of z. The first byte of a block is its k; bits follow from the highest
of each byte on, and the last byte is filled up with zeros.

R. F. Rice: Some practical universal noiseless coding techniques, JPL 79-22, 1979; z is the mapping
of CCSDS 121.0-B. A decoder takes a number in a cycle with one leading-ones counter of `ESCAPE` bits
and one shifter.
"""

from __future__ import annotations

import numpy as np

ESCAPE = 12
"""Ones that all bits of a number follow."""
HEADER_BITS = 8
"""Of a block: its parameter."""


def mapped(numbers: np.ndarray) -> np.ndarray:
    """i64: signed numbers as those from 0 on, small ones first."""
    wide = numbers.astype(np.int64)
    return np.where(wide < 0, -2 * wide - 1, 2 * wide)


def code_bits(numbers: np.ndarray, bits: int) -> np.ndarray:
    """i64 of [parameters, numbers]: what the code of each number takes. `bits`: of a number."""
    z, parameters = mapped(numbers), np.arange(bits)[:, None]
    ones = z >> parameters
    return np.where(ones < ESCAPE, ones + 1 + parameters, ESCAPE + bits)


def coded(numbers: np.ndarray, bits: int) -> np.ndarray:
    """u8: a block of some numbers, with the parameter that takes the fewest bytes."""
    found = code_bits(numbers, bits)
    parameter = int(found.sum(axis=1).argmin())
    sizes, z = found[parameter], mapped(numbers)
    is_escaped = (z >> parameter) >= ESCAPE
    ones = np.where(is_escaped, ESCAPE, z >> parameter)
    ends = np.cumsum(sizes) + HEADER_BITS
    written = np.zeros(HEADER_BITS + int(sizes.sum()), np.uint8)
    written[:HEADER_BITS] = parameter >> np.arange(HEADER_BITS)[::-1] & 1
    first = np.repeat(ends - sizes - (np.cumsum(ones) - ones), ones)
    written[first + np.arange(len(first))] = 1
    rest = np.where(is_escaped, bits, parameter)
    for place in range(int(rest.max(initial=0))):  # low bits, the lowest one last
        chosen = rest > place
        written[ends[chosen] - 1 - place] = z[chosen] >> place & 1
    return np.packbits(written)


def decoded(data: np.ndarray, count: int, bits: int) -> np.ndarray:
    """i64: the numbers of a block. ValueError where it has others than so many."""
    stream = np.unpackbits(data).tolist()
    parameter, at = int(data[0]) if len(data) else bits, HEADER_BITS
    found = np.zeros(count, np.int64)
    if parameter >= bits:
        raise ValueError(f"parameter {parameter} of numbers of {bits} bits")
    for index in range(count):
        ones = 0
        while ones < ESCAPE and at < len(stream) and stream[at]:
            ones, at = ones + 1, at + 1
        is_escaped = ones == ESCAPE
        at += not is_escaped
        width = bits if is_escaped else parameter
        if at + width > len(stream):
            raise ValueError(f"the block ends within number {index}")
        low = int("".join(map(str, stream[at : at + width])) or "0", 2)
        at += width
        z = low if is_escaped else ones << parameter | low
        found[index] = -(z + 1) // 2 if z & 1 else z // 2
    if -(-at // 8) != len(data):
        raise ValueError(f"{len(data) - -(-at // 8)} bytes follow the last number")
    return found
