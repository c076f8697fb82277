// @title@
#ifndef @NAME@_H
#define @NAME@_H

#include <stddef.h>
#include <stdint.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_VERSION @version@

// Buffers on the device.
#define @NAME@_ARENA_BYTES @arena_bytes@u
#define @NAME@_WEIGHTS_BYTES @weights_bytes@u

#define @NAME@_INPUTS @input_count@
#define @NAME@_OUTPUTS @output_count@
#define @NAME@_DISPATCHES @dispatch_count@
#define @NAME@_MAX_RANK @rank@

enum @name@_type {
@types@
};

enum @name@_status {
    @NAME@_OK = 0,
    @NAME@_NO_DEVICE,         // there is no OpenCL device, or no memory on it
    @NAME@_NOT_BUILT,         // its driver refuses the program, or has another one than the binary's
    @NAME@_FAILED,            // a run failed
    @NAME@_NOT_INITIALIZED
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

struct @name@ {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_mem arena, weights;
    cl_kernel kernels[@NAME@_DISPATCHES + 1];
    int is_precompiled;  // whether the program is the binary of the package
};

// Prepares a device; NULL: the first device of the first platform. Where device and driver are those
// of the package's binary, it is taken@without_source@.
int @name@_init(struct @name@ *model, cl_device_id device);

// Computes the outputs of the inputs, which are arrays of the host, in order.
int @name@_run(struct @name@ *model, const void *const inputs[], void *const outputs[]);

// Gives the device's memory back.
void @name@_close(struct @name@ *model);

#ifdef __cplusplus
}
#endif

#endif
