"""Every step of a schedule by its name: a schedule that is data is read with this list.

    STEPS["split"](nest, loop="j", into="jt jp", factors=(14,))

A new step is added here, so that lists of steps that hold it can be given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from explorer.kernels.steps.contract import contract
from explorer.kernels.steps.distribute import distribute, localize
from explorer.kernels.steps.dot import dot
from explorer.kernels.steps.dual_products import dual_products
from explorer.kernels.steps.forward import forward
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.groups import group, items, single, stage, tree
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.matrix_tiles import matrix_tiles
from explorer.kernels.steps.narrow import narrow
from explorer.kernels.steps.pack import pack
from explorer.kernels.steps.pipeline import pipeline
from explorer.kernels.steps.prefetch import prefetch
from explorer.kernels.steps.registers import accumulate, hold, rfactor
from explorer.kernels.steps.restructure import cut, merge, reorder, split
from explorer.kernels.steps.settle import settle
from explorer.kernels.steps.tensor_cores import tensor_cores
from explorer.kernels.steps.transpose import transpose
from explorer.kernels.steps.vectorize import vectorize
from explorer.kernels.steps.winograd.step import winograd

STEPS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        step.__name__: step
        for step in (
            split,
            cut,
            reorder,
            merge,
            accumulate,
            hold,
            settle,
            rfactor,
            fuse_producer,
            fuse_consumer,
            pack,
            contract,
            vectorize,
            transpose,
            unroll,
            parallel,
            prefetch,
            winograd,
            forward,
            dot,
            dual_products,
            matrix_tiles,
            distribute,
            localize,
            stage,
            pipeline,
            tensor_cores,
            narrow,
            items,
            tree,
            single,
            group,
        )
    }
)
"""Every step by its function's name. Each takes a nest and arguments of its own: names, numbers,
lists of numbers, layouts."""
