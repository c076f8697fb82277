// Parts that @device@ runs; their files stand in the folder npu.
enum @name@_part {
@part_names@
};

// Runs a part on @device@: its numbers are read from `inputs` and written to `outputs`, in the order
// of its ports (npu/layout.json). Returns 0 when it is done.
typedef int (*@name@_npu)(
    void *user, enum @name@_part part, const void *const inputs[], void *const outputs[]);
