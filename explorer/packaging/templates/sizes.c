@divided@
static int check_sizes(@declared@)
{
@checks@
    return @NAME@_OK;
}

static uint32_t bytes_of_element(enum @name@_type type)
{
    switch (type) {
    case @NAME@_BOOL:
    case @NAME@_INT8:
    case @NAME@_UINT8:
        return 1;
    case @NAME@_INT16:
    case @NAME@_UINT16:
    case @NAME@_FLOAT16:
    case @NAME@_BFLOAT16:
        return 2;
    case @NAME@_INT64:
    case @NAME@_UINT64:
    case @NAME@_FLOAT64:
        return 8;
    default:
        return 4;
    }
}

// The size in bytes that follows from a shape.
static void measure(struct @name@_tensor *tensor)
{
    tensor->size_bytes = bytes_of_element(tensor->type);
    for (int axis = 0; axis < tensor->rank; axis++)
        tensor->size_bytes *= (uint32_t)tensor->shape[axis];
}

int @name@_input_at(int number, @declared@, struct @name@_tensor *tensor)
{
    if (tensor == NULL || number < 0 || number >= @NAME@_INPUTS)
        return @NAME@_NO_TENSOR;
    if (check_sizes(@passed@) != @NAME@_OK)
        return check_sizes(@passed@);
    *tensor = @name@_inputs[number];
@input_shapes@
    measure(tensor);
    return @NAME@_OK;
}

int @name@_output_at(int number, @declared@, struct @name@_tensor *tensor)
{
    if (tensor == NULL || number < 0 || number >= @NAME@_OUTPUTS)
        return @NAME@_NO_TENSOR;
    if (check_sizes(@passed@) != @NAME@_OK)
        return check_sizes(@passed@);
    *tensor = @name@_outputs[number];
@output_shapes@
    measure(tensor);
    return @NAME@_OK;
}
@moves@
static void enter(@memory_parameter@, @declared@)
{
@enter@
}

static void leave(@memory_parameter@, @declared@)
{
@leave@
}
