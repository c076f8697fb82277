// Inputs and expected outputs, which are many: the file vectors.bin, least significant bytes first.
static union {
    double alignment;
    unsigned char bytes[@count@];
} numbers;

static int load_numbers(void)
{
    FILE *file = fopen("vectors.bin", "rb");
    size_t count = 0;
    if (file != NULL) {
        count = fread(numbers.bytes, 1, sizeof numbers.bytes, file);
        fclose(file);
    }
    if (count != sizeof numbers.bytes)
        printf("vectors.bin cannot be read: run this in the package's folder\n");
    return count == sizeof numbers.bytes;
}
