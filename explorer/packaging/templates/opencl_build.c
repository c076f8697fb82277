    model->program = clCreateProgramWithSource(
        model->context, sizeof source / sizeof source[0], (const char **)(uintptr_t)source, NULL,
        &error);
    if (error != CL_SUCCESS)
        return @NAME@_NOT_BUILT;
    if (clBuildProgram(model->program, 1, &device, "-w -DPHASES", NULL, NULL) != CL_SUCCESS)
        return @NAME@_NOT_BUILT;
    return @NAME@_OK;