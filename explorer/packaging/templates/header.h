// @title@
#ifndef @NAME@_H
#define @NAME@_H

#include <stddef.h>
#include <stdint.h>
@threads_include@

#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_VERSION @version@

// Memory that a run needs: the caller's, or a static block where the library is compiled with
// @NAME@_STATIC_ARENA. Nothing has to be kept in it between two runs.
@memory_sizes@
#define @NAME@_ARENA_ALIGNMENT @alignment@u

// Constant numbers.
#define @NAME@_WEIGHTS_BYTES @weights_bytes@u
@weights_macros@
#define @NAME@_INPUTS @input_count@
#define @NAME@_OUTPUTS @output_count@
#define @NAME@_MAX_RANK @rank@
@size_macros@
enum @name@_type {
@types@
};

enum @name@_status {
    @NAME@_OK = 0,
    @NAME@_NO_ARENA,         // there is no memory, or no model
    @NAME@_ARENA_TOO_SMALL,
    @NAME@_ARENA_UNALIGNED,  // it begins at no multiple of @NAME@_ARENA_ALIGNMENT
    @NAME@_BAD_WEIGHTS,      // they are missing, too few, or unaligned
    @NAME@_BAD_SIZE,         // of a dimension that is given at run time
    @NAME@_NOT_INITIALIZED,
@threads_status@
@sizes_status@
    @NAME@_NPU_FAILED        // what the user's function for the NPU returned was not 0
};

struct @name@_tensor {
    const char *name;
    enum @name@_type type;
    int rank;
    int32_t shape[@NAME@_MAX_RANK];
    uint32_t offset_bytes;  // in the arena
    uint32_t size_bytes;
    float scale;            // real = (stored - zero_point) * scale; 0: the number is what it is
    int32_t zero_point;
};

extern const struct @name@_tensor @name@_inputs[@NAME@_INPUTS@one_input@];
extern const struct @name@_tensor @name@_outputs[@NAME@_OUTPUTS@one_output@];

@npu_types@
@team_types@
struct @name@ {
    unsigned char *arena;
@memory_field@
    const unsigned char *weights;
@npu_fields@
@team_field@
};

// Takes the memory of the runs; checks its size and alignment. @init_note@
int @name@_init(@init_parameters@);

// Where an input has to be written before every run, and an output is after it; NULL for a number
// that there is not. They lie in the arena, where other numbers overwrite them during a run.
void *@name@_input(const struct @name@ *model, int number);
const void *@name@_output(const struct @name@ *model, int number);

// Computes the outputs of the inputs.@run_note@
int @name@_run(@run_parameters@);
@sizes_declaration@
@close_declaration@

#ifdef __cplusplus
}
#endif

#endif
