"""What moves a number: a pure function from a compilation and a quantity to its levers.

finding     all levers of a quantity, the most helpful first
memory      peak bytes: schedules with less scratch, layouts, bands, planners, a budget
latency     predicted time: choices of the kernels that take longest
precision   decibels and bytes of weights: modes and ranges of quantized tensors, calibration
modelled    cycles, traffic and energy of a machine with other tiles of a layer
machine     fields of a machine: half of each and twice as much
others      decisions of the target and passes, of which no model predicts the effect
trials      predictions of those: the passes run again with the decision changed
outside     threads and options of a package, which are no decisions of a compilation
"""
