"""Which of its two neighbouring integers a weight becomes, so that sums err least.

    found = rounded(weights, scales, moments)       weights (rows, inputs), one scale for each row

The error of a row of sums over data is quadratic in what its weights become:

    E |w x - v y|^2 = v H v - 2 w C v + w E[x x] w        H = E[y y], C = E[x y]

where x are the inputs in floats and y those that the quantized program has. AdaRound (Nagel et
al., Up or Down? Adaptive Rounding for Post-Training Quantization, 2020, equations 9 to 13) states
it so, as a quadratic problem over floor and ceiling of each weight, and relaxes it to a sigmoid
for gradient descent. Here the problem itself is descended in coordinates: a weight goes to its
other neighbour where that lowers the error, until none does. It has no random start and no rate,
every step lowers the error, and all rows take theirs at once. It starts twice, from the nearest
integers and from those that make up for one another in order (`fed_back`); the better end counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DAMPING = 0.01
"""Of the mean of H's diagonal: what few examples do not tell is decided by the weight itself
(Frantar et al., GPTQ, 2022, section 3.3)."""
SWEEPS = 30
LARGEST = 127
"""Of 8 bits. With fewer steps the largest weights of a row stay where they are: one step less would
change the scale that `quantize-tensors` finds, and with it all others."""


@dataclass(frozen=True)
class Moments:
    """What of the data decides the errors of sums of one operation, or one group of it.

    All (inputs, inputs) f64: quantized is H = E[y y], mixed C = E[x y], exact E[x x].
    """

    quantized: np.ndarray
    mixed: np.ndarray
    exact: np.ndarray

    def damped(self) -> Moments:
        """As if there were noise in the inputs, the same in both programs."""
        noise = DAMPING * float(np.mean(np.diag(self.quantized)))
        added = noise * np.eye(len(self.quantized))
        return Moments(self.quantized + added, self.mixed + added, self.exact + added)


def nearest(weights: np.ndarray, scales: np.ndarray, largest: int = LARGEST) -> np.ndarray:
    """(rows, inputs) f64 whole numbers, as quantizing by these scales makes them."""
    return np.clip(np.rint(weights / scales[:, None]), -largest, largest)


def rounded(
    weights: np.ndarray, scales: np.ndarray, moments: Moments, largest: int = LARGEST
) -> np.ndarray:
    """(rows, inputs) f64 whole numbers; of no row the error is larger than with the nearest ones.

    weights: (rows, inputs); scales: (rows,); largest: magnitude of a whole number.
    """
    weights, scales = weights.astype(np.float64), scales.astype(np.float64)
    found, least = nearest(weights, scales, largest), np.full(len(weights), np.inf)
    if np.trace(moments.quantized) <= 0:  # of inputs that never change, rounding is left
        return found
    damped = moments.damped()
    starts = [found, fed_back(weights, scales, damped, largest)]
    ends = (_descended(weights, scales, start, damped, largest) for start in starts)
    for integers in (found, *ends):
        error = errors(weights, integers, scales, moments)
        found = np.where((error < least)[:, None], integers, found)
        least = np.minimum(error, least)
    return found


def fed_back(
    weights: np.ndarray, scales: np.ndarray, moments: Moments, largest: int = LARGEST
) -> np.ndarray:
    """Whole numbers, one input after the other: those to come make up for each one's error.

    What is aimed at are the real weights of the least error, w C H^-1; with H^-1 = U' U each error
    e of input i costs the inputs behind it e U[i, j] / U[i, i]. Source: Frantar et al., GPTQ, 2022,
    section 3.3. Kept to the neighbours of the weights themselves. The nearest integers where the
    data say nothing of some direction: inputs that are always 0 or the same.
    """
    try:
        inverse = np.linalg.inv(moments.quantized)
        upper = np.linalg.cholesky((inverse + inverse.T) / 2).T
    except np.linalg.LinAlgError:
        return nearest(weights, scales, largest)
    aim = weights @ moments.mixed @ inverse
    exact = weights / scales[:, None]
    low, high = (np.clip(f(exact), -largest, largest) for f in (np.floor, np.ceil))
    is_fixed = _stays(nearest(weights, scales, largest), largest)
    low, high = (np.where(is_fixed, np.rint(exact), one) for one in (low, high))
    integers = np.empty_like(aim)
    for place in range(aim.shape[1]):
        wanted = np.rint(aim[:, place] / scales)
        integers[:, place] = np.clip(wanted, low[:, place], high[:, place])
        error = (aim[:, place] - integers[:, place] * scales) / upper[place, place]
        aim[:, place:] -= error[:, None] * upper[place, place:]
    return integers


def errors(
    weights: np.ndarray, integers: np.ndarray, scales: np.ndarray, moments: Moments
) -> np.ndarray:
    """(rows,) the mean squared errors of the sums."""
    real = integers * scales[:, None]
    found = np.einsum("ri,ri->r", real @ moments.quantized, real)
    found -= 2 * np.einsum("ri,ri->r", weights @ moments.mixed, real)
    return found + np.einsum("ri,ri->r", weights @ moments.exact, weights)


def _stays(integers: np.ndarray, largest: int) -> np.ndarray:
    """The largest of few steps."""
    return (np.abs(integers) == largest) & (largest < LARGEST)


def _descended(
    weights: np.ndarray, scales: np.ndarray, start: np.ndarray, moments: Moments, largest: int
) -> np.ndarray:
    """Steps to the other neighbour, one input after the other, until no step lowers an error."""
    integers = start.copy()
    quantized, diagonal = moments.quantized, np.diag(moments.quantized)
    # Half the gradient of each row's error.
    slope = (integers * scales[:, None]) @ quantized - weights @ moments.mixed
    other = np.where(integers * scales[:, None] < weights, 1.0, -1.0)
    other[(np.abs(integers + other) > largest) | _stays(integers, largest)] = 0.0
    for _ in range(SWEEPS):
        changed = 0
        for place in range(integers.shape[1]):
            step = other[:, place] * scales
            gain = step * (2 * slope[:, place] + step * diagonal[place])
            rows = np.flatnonzero(gain < -1e-12 * np.abs(step * slope[:, place]))
            if not rows.size:
                continue
            changed += rows.size
            slope[rows] += step[rows, None] * quantized[place]
            integers[rows, place] += other[rows, place]
            other[rows, place] *= -1
        if not changed:
            break
    return integers
