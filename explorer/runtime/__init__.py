"""Building and running programs: compilers, devices, isolation, measurement.

    results.Program + weights ──▶ NativeProgram  (C, a shared library in a worker process)
                              └─▶ OpenCLProgram  (OpenCL C, a device of this machine)

Reading order: `executable` (what every program can do), `compilers`, `worker`, `isolation`,
`native`, then `devices`, `opencl`, and `roofline`. Nothing is imported here, so that a part
costs only what it needs: `opencl` is the only module that imports pyopencl.
"""
