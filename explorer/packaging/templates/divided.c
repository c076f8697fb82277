
// Rounded downwards.
static int64_t divided(int64_t dividend, int64_t divisor)
{
    const int64_t found = dividend / divisor;
    return dividend % divisor < 0 ? found - 1 : found;
}
