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

#ifdef @NAME@_STATIC_ARENA
// C99 cannot align an array: the block is longer by what aligning its beginning takes.
static unsigned char static_arena[@NAME@_ARENA_BYTES + @NAME@_ARENA_ALIGNMENT - 1];
#endif

int @name@_init(@init_parameters@)
{
#ifdef @NAME@_STATIC_ARENA
    if (arena == NULL) {
        const uintptr_t past = (uintptr_t)static_arena % @NAME@_ARENA_ALIGNMENT;
        arena = static_arena + (past ? @NAME@_ARENA_ALIGNMENT - past : 0);
        arena_bytes = @NAME@_ARENA_BYTES;
    }
#endif
    if (model == NULL)
        return @NAME@_NO_ARENA;
    model->arena = NULL;
    model->weights = NULL;
@npu_assignments@
    if (arena == NULL)
        return @NAME@_NO_ARENA;
    if (arena_bytes < @NAME@_ARENA_BYTES)
        return @NAME@_ARENA_TOO_SMALL;
    if ((uintptr_t)arena % @NAME@_ARENA_ALIGNMENT != 0)
        return @NAME@_ARENA_UNALIGNED;
@weights_check@
    model->arena = (unsigned char *)arena;
@start@
    return @NAME@_OK;
}

@close@

void *@name@_input(const struct @name@ *model, int number)
{
    if (model == NULL || model->arena == NULL || number < 0 || number >= @NAME@_INPUTS)
        return NULL;
    return model->arena + @name@_inputs[number].offset_bytes;
}

const void *@name@_output(const struct @name@ *model, int number)
{
    if (model == NULL || model->arena == NULL || number < 0 || number >= @NAME@_OUTPUTS)
        return NULL;
    return model->arena + @name@_outputs[number].offset_bytes;
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
