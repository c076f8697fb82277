
// Lengths of the axes of an input, an output or a mask: in memory, and in a call. An axis of
// several joined ones counts as those; 0: no axis is open.
static int input_axes(int number, @declared@, int64_t *whole, int64_t *own)
{
    int count = 0;
@unused@
@input_axes@
    return count;
}

static int output_axes(int number, @declared@, int64_t *whole, int64_t *own)
{
    int count = 0;
@unused@
@output_axes@
    return count;
}
@mask_axes@
// The last axis that is shorter in a call; below 0: none is.
static int last_open(int count, const int64_t *whole, const int64_t *own)
{
    int axis = count - 1;
    while (axis >= 0 && whole[axis] == own[axis])
        axis--;
    return axis;
}

static int has_row(int64_t row, int axis, const int64_t *whole, const int64_t *own)
{
    while (axis-- > 0) {
        if (row % whole[axis] >= own[axis])
            return 0;
        row /= whole[axis];
    }
    return 1;
}

static int64_t product(const int64_t *sizes, int first, int end)
{
    int64_t found = 1;
    while (first < end)
        found *= sizes[first++];
    return found;
}

// From numbers without gaps to rows of the largest sizes, from the last to the first, with zeros
// after what a call has.
static void spread(unsigned char *bytes, int count, const int64_t *whole, const int64_t *own,
    uint32_t element)
{
    const int axis = last_open(count, whole, own);
    if (axis < 0)
        return;
    const int64_t after = product(whole, axis + 1, count) * element;
    const int64_t length = own[axis] * after, stride = whole[axis] * after;
    int64_t from = product(own, 0, axis) * length;
    for (int64_t row = product(whole, 0, axis) - 1; row >= 0; row--) {
        unsigned char *to = bytes + row * stride;
        int64_t kept = 0;
        if (has_row(row, axis, whole, own)) {
            kept = length;
            from -= length;
            for (int64_t i = length - 1; i >= 0; i--)
                to[i] = bytes[from + i];
        }
        for (int64_t i = kept; i < stride; i++)
            to[i] = 0;
    }
}

// And back.
static void gather(unsigned char *bytes, int count, const int64_t *whole, const int64_t *own,
    uint32_t element)
{
    const int axis = last_open(count, whole, own);
    if (axis < 0)
        return;
    const int64_t after = product(whole, axis + 1, count) * element;
    const int64_t length = own[axis] * after, rows = product(whole, 0, axis);
    unsigned char *to = bytes;
    for (int64_t row = 0; row < rows; row++) {
        if (!has_row(row, axis, whole, own))
            continue;
        for (int64_t i = 0; i < length; i++)
            to[i] = bytes[row * whole[axis] * after + i];
        to += length;
    }
}
@mark@
