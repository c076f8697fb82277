#ifndef EXACT
// Whether a number is the expected one but for rounding.
static int is_near(double found, double wanted, double largest)
{
    if (found != found || wanted != wanted)
        return found != found && wanted != wanted;
    if (found == wanted)
        return 1;
    return fabs(found - wanted) <= TOLERANCE * largest;
}

static double float_of(const struct @name@_tensor *tensor, const void *numbers, uint32_t i)
{
    if (tensor->type == @NAME@_FLOAT64)
        return ((const double *)numbers)[i];
    return ((const float *)numbers)[i];
}

static int are_floats_near(
    const struct @name@_tensor *tensor, const void *found, const void *wanted)
{
    const uint32_t count = tensor->size_bytes / (tensor->type == @NAME@_FLOAT64 ? 8 : 4);
    double largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double size = fabs(float_of(tensor, wanted, i));
        if (size > largest && size <= 1.7976931348623157e308)
            largest = size;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_near(float_of(tensor, found, i), float_of(tensor, wanted, i), largest))
            return 0;
    return 1;
}
#endif

static int is_right(const struct @name@_tensor *tensor, const void *found, const void *wanted)
{
    uint32_t i = 0;
    while (i < tensor->size_bytes
        && ((const unsigned char *)found)[i] == ((const unsigned char *)wanted)[i])
        i++;
    if (i == tensor->size_bytes)
        return 1;
#ifndef EXACT
    if (tensor->type == @NAME@_FLOAT32 || tensor->type == @NAME@_FLOAT64)
        return are_floats_near(tensor, found, wanted);
#endif
    return 0;
}
