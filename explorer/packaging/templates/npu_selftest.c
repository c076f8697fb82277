// Outputs of the NPU as they were recorded; its inputs have to be those of then.
#define PARTS @parts@
static const uint32_t npu_sizes[2 * PARTS][@ports@] = {
@sizes@
};
static const void *const npu_inputs[VECTORS * PARTS][@ports@] = {
@npu_inputs@
};
static const void *const npu_outputs[VECTORS * PARTS][@ports@] = {
@npu_outputs@
};

static int run_npu(
    void *user, enum @name@_part part, const void *const inputs[], void *const outputs[])
{
    const int row = *(const int *)user * PARTS + (int)part;
    for (int i = 0; inputs[i] != NULL; i++) {
        const uint32_t size = npu_sizes[2 * (int)part][i];
        for (uint32_t byte = 0; byte < size; byte++) {
            if (((const unsigned char *)inputs[i])[byte]
                != ((const unsigned char *)npu_inputs[row][i])[byte]) {
                printf("vector %d: input %d of part %d is wrong\n", *(int *)user, i, (int)part);
                wrong++;
                break;
            }
        }
    }
    for (int i = 0; outputs[i] != NULL; i++)
        copy(outputs[i], npu_outputs[row][i], npu_sizes[2 * (int)part + 1][i]);
    return 0;
}
