
// A mask: ones where a call has an element.
static void mark(unsigned char *bytes, int count, const int64_t *whole, const int64_t *own)
{
    const int64_t kept = product(own, 0, count);
    for (int64_t i = 0; i < kept; i++)
        bytes[i] = 1;
    spread(bytes, count, whole, own, 1);
}
