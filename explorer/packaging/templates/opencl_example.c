// Runs @name@ once on zeros.
#include <stdio.h>

#include "@name@.h"

@memories@
static const void *const inputs[@NAME@_INPUTS + 1] = {@zeros@};
static void *const outputs[@NAME@_OUTPUTS + 1] = {@outputs@};

int main(void)
{
    struct @name@ model;
    const int status = @name@_init(&model, NULL);
    if (status != @NAME@_OK) {
        printf("the model cannot be initialized: status %d\n", status);
        return 1;
    }
    const int ran = @name@_run(&model, inputs, outputs);
    for (int i = 0; i < @NAME@_OUTPUTS; i++)
        printf("%s: %u bytes\n", @name@_outputs[i].name, (unsigned)@name@_outputs[i].size_bytes);
    @name@_close(&model);
    return ran != @NAME@_OK;
}
