
static int mask_axes(int number, @declared@, int64_t *whole, int64_t *own)
{
    int count = 0;
@unused@
@cases@
    return count;
}
