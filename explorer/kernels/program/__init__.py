"""From kernels to what a device runs: one translation unit, weights, how tasks are shared."""
