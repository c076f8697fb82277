// Runs @name@ once on zeros and prints the first numbers of each output.
#include <stdio.h>

#include "@name@.h"

@own_memories@
@weights_memory@
static double number_of(const struct @name@_tensor *tensor, const void *numbers, uint32_t i)
{
    double stored = 0;
    switch (tensor->type) {
    case @NAME@_FLOAT32:
        return ((const float *)numbers)[i];
    case @NAME@_FLOAT64:
        return ((const double *)numbers)[i];
    case @NAME@_INT8:
        stored = ((const int8_t *)numbers)[i];
        break;
    case @NAME@_BOOL:
    case @NAME@_UINT8:
        stored = ((const uint8_t *)numbers)[i];
        break;
    case @NAME@_INT16:
        stored = ((const int16_t *)numbers)[i];
        break;
    case @NAME@_INT32:
        stored = ((const int32_t *)numbers)[i];
        break;
    case @NAME@_INT64:
        stored = (double)((const int64_t *)numbers)[i];
        break;
    default:
        break;
    }
    return tensor->scale != 0 ? (stored - tensor->zero_point) * tensor->scale : stored;
}

@npu@
int main(void)
{
    struct @name@ model;
@own_pointers@
@own_alignment@
@init@
    for (int i = 0; i < @NAME@_INPUTS; i++) {
        unsigned char *input = @name@_input(&model, i);
        for (uint32_t byte = 0; byte < @name@_inputs[i].size_bytes; byte++)
            input[byte] = 0;
    }
    if (@name@_run(&model@size@) != @NAME@_OK)
        return 1;
    for (int i = 0; i < @NAME@_OUTPUTS; i++) {
        const struct @name@_tensor *tensor = &@name@_outputs[i];
        printf("%s:", tensor->name);
        uint32_t count = 1;
        for (int axis = 0; axis < tensor->rank; axis++)
            count *= (uint32_t)tensor->shape[axis];
        for (uint32_t j = 0; j < count && j < 10; j++)
            printf(" %g", number_of(tensor, @name@_output(&model, i), j));
        printf("\n");
    }
@close@
    return 0;
}
