"""OpenCL programs: devices, memory, runs."""
