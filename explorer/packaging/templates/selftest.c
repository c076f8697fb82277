// The self-test of @name@: status 0 when all outputs are as they were where the package was made.
#include <math.h>
#include <stdio.h>

#include "@name@.h"

#define VECTORS @vectors@
#define TOLERANCE @tolerance@

@arrays@

@own_memories@
@weights_memory@
static const void *const inputs[VECTORS + 1][@NAME@_INPUTS + 1] = {
@inputs@
    {NULL}
};
static const void *const expected[VECTORS + 1][@NAME@_OUTPUTS + 1] = {
@expected@
    {NULL}
};

static void copy(void *to, const void *from, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}

static int wrong;
@call_tensors@
@npu@
@compare@
// CRC-32 (ISO 3309) of all bytes; where numbers have their highest byte first, it is another one.
static int are_weights_right(const unsigned char *weights)
{
    const uint16_t one = 1;
    uint32_t sum = 0xFFFFFFFFu;
    if (*(const unsigned char *)&one == 0)
        return 1;
    for (uint32_t i = 0; i < @NAME@_WEIGHTS_BYTES; i++) {
        sum ^= weights[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ 0xEDB88320u : sum >> 1;
    }
    return (sum ^ 0xFFFFFFFFu) == @checksum@u;
}

int main(void)
{
    struct @name@ model;
@own_pointers@
    int vector = 0;
@load@
@own_alignment@
@init@
    if (!are_weights_right(model.weights)) {
        printf("the weights are not those of the package\n");
        wrong++;
    }
    for (; vector < VECTORS; vector++) {
        for (int i = 0; i < @NAME@_INPUTS; i++)
            copy(@name@_input(&model, i), inputs[vector][i], @input_tensor@size_bytes);
        if (@name@_run(&model@size@) != @NAME@_OK) {
            printf("vector %d does not run\n", vector);
            return 1;
        }
        for (int i = 0; i < @NAME@_OUTPUTS; i++) {
            if (!is_right(@output_tensor@, @name@_output(&model, i), expected[vector][i])) {
                printf("vector %d: output %d is wrong\n", vector, i);
                wrong++;
            }
        }
    }
    printf("%d vectors, %s\n", VECTORS, wrong ? "WRONG" : "ok");
@close@
    return wrong != 0;
}
