// The self-test of @name@: status 0 when all outputs are as they were where the package was made.
#include <math.h>
#include <stdio.h>

#include "@name@.h"

#define VECTORS @vectors@
#define TOLERANCE @tolerance@

@arrays@

static const void *const inputs[VECTORS + 1][@NAME@_INPUTS + 1] = {
@inputs@
    {NULL}
};
static const void *const expected[VECTORS + 1][@NAME@_OUTPUTS + 1] = {
@expected@
    {NULL}
};
@memories@
static void *const outputs[@NAME@_OUTPUTS + 1] = {@outputs@};

@compare@

int main(void)
{
    struct @name@ model;
    int wrong = 0;
@load@
    const int status = @name@_init(&model, NULL);
    if (status != @NAME@_OK) {
        printf("the model cannot be initialized: status %d\n", status);
        return 1;
    }
    for (int vector = 0; vector < VECTORS; vector++) {
        if (@name@_run(&model, inputs[vector], outputs) != @NAME@_OK) {
            printf("vector %d does not run\n", vector);
            return 1;
        }
        for (int i = 0; i < @NAME@_OUTPUTS; i++) {
            if (!is_right(&@name@_outputs[i], outputs[i], expected[vector][i])) {
                printf("vector %d: output %d is wrong\n", vector, i);
                wrong++;
            }
        }
    }
    printf("%d vectors, %s, %s\n", VECTORS, model.is_precompiled ? "the binary" : "the source",
        wrong ? "WRONG" : "ok");
    @name@_close(&model);
    return wrong != 0;
}
