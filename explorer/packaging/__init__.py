"""A package: C99 that runs a compiled model without Python, an operating system or this project.

    include/NAME.h         init, run, inputs, outputs, sizes
    src/NAME.c             the table of launches, with the arena's map
    src/NAME_kernels.h     one function for each kernel
    src/NAME_weights.h     weights as constant arrays, or NAME.weights, a file to map
    example/main.c  selftest.c  Makefile  CMakeLists.txt  README.md  manifest.json

`PackageSource` holds what goes into it, `package_files` makes the files, `write_package` writes
them at once, `inspect_package` verifies them.
"""
