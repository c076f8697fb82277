#define LAUNCHES @launch_count@

struct launch {
    void (*run)(@parameters@);
    const uint32_t *offsets;
};

// Where the arguments of every launch lie, in bytes from the arena or the weights.
static const uint32_t offsets[] = {
@offsets@
    0
};

@arena_map@
static const struct launch launches[LAUNCHES + 1] = {
@launches@
    {0, offsets}
};

// Runs the launches from `first` to before `end`.
static void run_launches(const struct @name@ *model, int first, int end)
{
    for (int number = first; number < end; number++) {
        // Volatile: compilers that know which function it is may move its loads and stores past
        // those of a kernel that has the same memory for numbers of another type.
        void (*volatile run)(@parameters@) = launches[number].run;
        run(@memories@, model->weights, launches[number].offsets);
    }
}
