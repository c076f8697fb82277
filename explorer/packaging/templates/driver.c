// @title@
#include "@name@.h"
@team@
#include "@name@_kernels.h"
@weights_include@
@table@
const struct @name@_tensor @name@_inputs[@NAME@_INPUTS@one_input@] = {
@inputs@
};

const struct @name@_tensor @name@_outputs[@NAME@_OUTPUTS@one_output@] = {
@outputs@
};

@section_macros@
#ifdef @NAME@_STATIC_ARENA
@static_memories@
#endif

int @name@_init(@init_parameters@)
{
#ifdef @NAME@_STATIC_ARENA
@take_static@
#endif
    if (model == NULL)
        return @NAME@_NO_ARENA;
    model->arena = NULL;
    model->weights = NULL;
@npu_assignments@
@memory_checks@
@weights_check@
@memory_assignments@
@start@
    return @NAME@_OK;
}

@close@

void *@name@_input(const struct @name@ *model, int number)
{
    if (model == NULL || model->arena == NULL || number < 0 || number >= @NAME@_INPUTS)
        return NULL;
    return @input_place@;
}

const void *@name@_output(const struct @name@ *model, int number)
{
    if (model == NULL || model->arena == NULL || number < 0 || number >= @NAME@_OUTPUTS)
        return NULL;
    return @output_place@;
}

@sizes@
int @name@_run(@run_parameters@)
{
    if (model == NULL || model->arena == NULL)
        return @NAME@_NOT_INITIALIZED;
@size_check@
@calls@
@size_end@
    return @NAME@_OK;
}
