// @title@
#include "@name@.h"

#include <stdio.h>
#include <string.h>

#include "@name@_binary.h"
#include "@name@_weights.h"
@source_include@

// Where the arguments of every launch lie, in bytes from the arena or the weights.
static const cl_ulong offsets[] = {
@offsets@
    0
};

@arena_map@
struct dispatch {
    const char *kernel;
    const cl_ulong *offsets;
    int arguments;
    size_t work_items;
    size_t group_items;  // 0: the driver decides
};

static const struct dispatch dispatches[@NAME@_DISPATCHES + 1] = {
@dispatches@
    {NULL, offsets, 0, 0, 0}
};

const struct @name@_tensor @name@_inputs[@NAME@_INPUTS@one_input@] = {
@inputs@
};

const struct @name@_tensor @name@_outputs[@NAME@_OUTPUTS@one_output@] = {
@outputs@
};

static int is_device_of_binary(cl_device_id device)
{
    static const cl_device_info facts[] = {CL_DEVICE_NAME, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    char found[1024];
    for (int i = 0; i < 3; i++) {
        memset(found, 0, sizeof found);
        if (clGetDeviceInfo(device, facts[i], sizeof found - 1, found, NULL) != CL_SUCCESS
            || strcmp(found, binary_device[i]) != 0)
            return 0;
    }
    return 1;
}

static int build(struct @name@ *model, cl_device_id device)
{
    cl_int error;
    if (sizeof binary > 1 && is_device_of_binary(device)) {
        const size_t size = sizeof binary;
        const unsigned char *bytes = binary;
        model->program =
            clCreateProgramWithBinary(model->context, 1, &device, &size, &bytes, NULL, &error);
        if (error == CL_SUCCESS
            && clBuildProgram(model->program, 1, &device, "-w -DPHASES", NULL, NULL) == CL_SUCCESS) {
            model->is_precompiled = 1;
            return @NAME@_OK;
        }
        if (error == CL_SUCCESS)
            clReleaseProgram(model->program);
        model->program = NULL;
    }
@build_source@
}

static int prepare(struct @name@ *model)
{
    cl_int error;
    for (int i = 0; i < @NAME@_DISPATCHES; i++) {
        const struct dispatch *dispatch = &dispatches[i];
        cl_kernel kernel = clCreateKernel(model->program, dispatch->kernel, &error);
        if (error != CL_SUCCESS)
            return @NAME@_NOT_BUILT;
        model->kernels[i] = kernel;
        error = clSetKernelArg(kernel, 0, sizeof(cl_mem), &model->arena);
        error |= clSetKernelArg(kernel, 1, sizeof(cl_mem), &model->weights);
        for (int argument = 0; argument < dispatch->arguments; argument++)
            error |= clSetKernelArg(
                kernel, 2 + (cl_uint)argument, sizeof(cl_ulong), &dispatch->offsets[argument]);
        if (error != CL_SUCCESS)
            return @NAME@_NOT_BUILT;
    }
    return @NAME@_OK;
}

int @name@_init(struct @name@ *model, cl_device_id device)
{
    cl_int error;
    memset(model, 0, sizeof *model);
    if (device == NULL) {
        cl_platform_id platform;
        if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS
            || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
            return @NAME@_NO_DEVICE;
    }
    model->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    if (error != CL_SUCCESS)
        return @NAME@_NO_DEVICE;
    model->queue = clCreateCommandQueue(model->context, device, 0, &error);
    if (error == CL_SUCCESS)
        model->arena = clCreateBuffer(
            model->context, CL_MEM_READ_WRITE, @NAME@_ARENA_BYTES, NULL, &error);
    if (error == CL_SUCCESS)
        model->weights = clCreateBuffer(
            model->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, @NAME@_WEIGHTS_BYTES,
            (void *)(uintptr_t)&@name@_weights, &error);
    int status = error == CL_SUCCESS ? build(model, device) : @NAME@_NO_DEVICE;
    if (status == @NAME@_OK)
        status = prepare(model);
    if (status != @NAME@_OK)
        @name@_close(model);
    return status;
}

int @name@_run(struct @name@ *model, const void *const inputs[], void *const outputs[])
{
    cl_int error = CL_SUCCESS;
    if (model->queue == NULL)
        return @NAME@_NOT_INITIALIZED;
    for (int i = 0; i < @NAME@_INPUTS; i++)
        if (@name@_inputs[i].size_bytes)
            error |= clEnqueueWriteBuffer(
                model->queue, model->arena, CL_FALSE, @name@_inputs[i].offset_bytes,
                @name@_inputs[i].size_bytes, inputs[i], 0, NULL, NULL);
    for (int i = 0; i < @NAME@_DISPATCHES; i++) {
        const size_t *group = dispatches[i].group_items ? &dispatches[i].group_items : NULL;
        error |= clEnqueueNDRangeKernel(
            model->queue, model->kernels[i], 1, NULL, &dispatches[i].work_items, group, 0, NULL,
            NULL);
    }
    for (int i = 0; i < @NAME@_OUTPUTS; i++)
        if (@name@_outputs[i].size_bytes)
            error |= clEnqueueReadBuffer(
                model->queue, model->arena, CL_FALSE, @name@_outputs[i].offset_bytes,
                @name@_outputs[i].size_bytes, outputs[i], 0, NULL, NULL);
    error |= clFinish(model->queue);
    return error == CL_SUCCESS ? @NAME@_OK : @NAME@_FAILED;
}

void @name@_close(struct @name@ *model)
{
    for (int i = 0; i < @NAME@_DISPATCHES; i++)
        if (model->kernels[i] != NULL)
            clReleaseKernel(model->kernels[i]);
    if (model->program != NULL)
        clReleaseProgram(model->program);
    if (model->weights != NULL)
        clReleaseMemObject(model->weights);
    if (model->arena != NULL)
        clReleaseMemObject(model->arena);
    if (model->queue != NULL)
        clReleaseCommandQueue(model->queue);
    if (model->context != NULL)
        clReleaseContext(model->context);
    memset(model, 0, sizeof *model);
}
