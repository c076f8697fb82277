"""From loop nests to source text: C and OpenCL C."""
