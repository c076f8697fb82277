//! types
// A section is one phase of one launch. `run` adds the launch's offsets to the base addresses.
struct Section {
    void (*run)(char *arena, const char *weights, const size_t *offsets, long lo, long hi);
    const size_t *offsets;
    long tasks;
    long chunk;  // how many tasks a thread claims at once
    int launch;
    int together;  // sections from here on that one thread runs as one claim; 0 behind the first
};

//! run
// The driver. A program with little to share is run by the caller alone. Else threads walk the
// table of sections together. Neighbours of which none can be shared are one claim of one thread. Within a section each claims the next few tasks by compare-and-swap
// and waits at its end until all are done, so that nobody ever waits for a thread that holds no
// task. A job is a range of sections; its number stands in the upper half of every claim, so that a
// thread that comes late finds nothing to take.

#define MOST_THREADS 256
#define SPINS_FOR_TASKS 300   // pauses at the end of a section before the processor is yielded
#define SPINS_FOR_JOBS 4000   // pauses between jobs before a worker sleeps
// Below this the caller works alone: 5 to 30 microseconds, as long as it takes to wake a thread.
#define LEAST_SHARED_OPERATIONS 100000

struct Progress {
    _Alignas(64) atomic_ullong claimed;  // job number << 32 | first task that nobody has taken
    _Alignas(64) atomic_long done;
    atomic_ullong began, ended;  // nanoseconds; only where times are asked for
};

static struct Progress progress[SECTION_COUNT + 1];
static _Alignas(64) atomic_uint job_number;
static _Atomic(char *) job_arena;
static _Atomic(const char *) job_weights;
static atomic_int job_first, job_last, job_threads;
static _Atomic(unsigned long long *) job_nanoseconds;  // NULL: nobody asks for times
static atomic_ullong job_origin;
static atomic_bool workers_stop;
static atomic_int workers_asleep;
static pthread_mutex_t sleep_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t run_mutex = PTHREAD_MUTEX_INITIALIZER;  // one run on several threads at once
static pthread_t workers[MOST_THREADS];
static int worker_count;
static int processors[MOST_THREADS];  // that the threads are bound to, the caller's first
static int processor_count;           // 0: threads are not bound

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ __volatile__("yield");
#endif
}

static unsigned long long nanoseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

static bool opens_launch(int number)
{
    return number < 1 || sections[number - 1].launch != sections[number].launch;
}

static bool closes_launch(int number)
{
    return sections[number + 1].launch != sections[number].launch;
}

// Runs whole sections one after the other, and notes when their launches begin and end.
static void run_alone(
    int first, int count, char *arena, const char *weights, unsigned long long *nanoseconds,
    unsigned long long origin)
{
    for (int number = first; number < first + count; number++) {
        const struct Section *section = &sections[number];
        if (nanoseconds && opens_launch(number))
            nanoseconds[2 * section->launch] = nanoseconds_now() - origin;
        section->run(arena, weights, section->offsets, 0, section->tasks);
        if (nanoseconds && closes_launch(number))
            nanoseconds[2 * section->launch + 1] = nanoseconds_now() - origin;
    }
}

static void raise_to(atomic_ullong *value, unsigned long long least)
{
    unsigned long long known = atomic_load(value);
    while (known < least && !atomic_compare_exchange_weak(value, &known, least))
        ;
}

static bool is_shared(int number)
{
    return sections[number].chunk < sections[number].tasks;
}

// Runs tasks of a section until none is left, then waits until all are done. False when the job is
// over already.
static bool work_on(int number, unsigned job, char *arena, const char *weights)
{
    const struct Section *section = &sections[number];
    struct Progress *state = &progress[number];
    const long tasks = is_shared(number) ? section->tasks : 1;
    for (;;) {
        unsigned long long claimed = atomic_load_explicit(&state->claimed, memory_order_acquire);
        if ((unsigned)(claimed >> 32) != job)
            return false;
        const long lo = (long)(claimed & 0xffffffffu);
        if (lo >= tasks)
            break;
        const long end = lo + section->chunk;
        const long hi = end < tasks ? end : tasks;
        const unsigned long long next = (unsigned long long)job << 32 | (unsigned long long)hi;
        if (!atomic_compare_exchange_weak(&state->claimed, &claimed, next))
            continue;
        unsigned long long *const nanoseconds = atomic_load(&job_nanoseconds);
        const unsigned long long origin = atomic_load(&job_origin);
        if (is_shared(number)) {
            if (nanoseconds && lo == 0)
                atomic_store(&state->began, nanoseconds_now() - origin);
            section->run(arena, weights, section->offsets, lo, hi);
            if (nanoseconds)
                raise_to(&state->ended, nanoseconds_now() - origin);
        } else {
            run_alone(number, section->together, arena, weights, nanoseconds, origin);
        }
        atomic_fetch_add_explicit(&state->done, hi - lo, memory_order_release);
    }
    int spins = 0;
    while (atomic_load_explicit(&state->done, memory_order_acquire) < tasks) {
        const unsigned long long claimed =
            atomic_load_explicit(&state->claimed, memory_order_relaxed);
        if ((unsigned)(claimed >> 32) != job)
            return false;
        if (spins++ < SPINS_FOR_TASKS)
            pause_briefly();
        else
            sched_yield();
    }
    return true;
}

static void sleep_until_job_changes(unsigned seen)
{
    pthread_mutex_lock(&sleep_mutex);
    atomic_fetch_add(&workers_asleep, 1);
    while (atomic_load(&job_number) == seen)
        pthread_cond_wait(&sleep_condition, &sleep_mutex);
    atomic_fetch_sub(&workers_asleep, 1);
    pthread_mutex_unlock(&sleep_mutex);
}

static void *work(void *index)
{
    const int own = (int)(intptr_t)index;
    unsigned seen = 0;
    for (;;) {
        int spins = 0;
        while (atomic_load_explicit(&job_number, memory_order_acquire) == seen) {
            if (spins++ < SPINS_FOR_JOBS)
                pause_briefly();
            else
                sleep_until_job_changes(seen);
        }
        seen = atomic_load_explicit(&job_number, memory_order_acquire);
        if (atomic_load(&workers_stop))
            return NULL;
        if (own + 1 >= atomic_load(&job_threads))
            continue;
        char *const arena = atomic_load(&job_arena);
        const char *const weights = atomic_load(&job_weights);
        const int last = atomic_load(&job_last);
        for (int number = atomic_load(&job_first); number < last;
             number += sections[number].together)
            if (!work_on(number, seen, arena, weights))
                break;
    }
}

static void wake_workers(void)
{
    atomic_fetch_add(&job_number, 1);
    if (atomic_load(&workers_asleep) > 0) {
        pthread_mutex_lock(&sleep_mutex);
        pthread_cond_broadcast(&sleep_condition);
        pthread_mutex_unlock(&sleep_mutex);
    }
}

// Makes the sections [first, last) the present job and returns its number.
static unsigned publish_job(
    char *arena, const char *weights, int first, int last, int threads,
    unsigned long long *nanoseconds, unsigned long long origin)
{
    const unsigned job = atomic_load(&job_number) + 1;
    atomic_store(&job_arena, arena);
    atomic_store(&job_weights, weights);
    atomic_store(&job_first, first);
    atomic_store(&job_last, last);
    atomic_store(&job_threads, threads);
    atomic_store(&job_nanoseconds, nanoseconds);
    atomic_store(&job_origin, origin);
    for (int number = first; number < last; number += sections[number].together) {
        atomic_store_explicit(&progress[number].done, 0, memory_order_relaxed);
        atomic_store_explicit(&progress[number].ended, 0, memory_order_relaxed);
        atomic_store_explicit(
            &progress[number].claimed, (unsigned long long)job << 32, memory_order_release);
    }
    wake_workers();
    return job;
}

// Binds a worker to its processor, where processors were named.
static int bind_worker(int number)
{
    if (processor_count == 0)
        return 0;
#if defined(__linux__)
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    CPU_SET(processors[(number + 1) % processor_count], &chosen);
    return pthread_setaffinity_np(workers[number], sizeof chosen, &chosen);
#else
    return ENOTSUP;
#endif
}

static int start_workers(int count)
{
    for (; worker_count < count; worker_count++) {
        void *const index = (void *)(intptr_t)worker_count;
        int error = pthread_create(&workers[worker_count], NULL, work, index);
        if (error)
            return error;
        error = bind_worker(worker_count);
        if (error) {
            worker_count++;  // it runs, and is ended with the others
            return error;
        }
    }
    return 0;
}

// Names the processors of all threads, the caller's first; call it before the first run. The
// caller's thread is the caller's own to bind. Returns 0 or an error number (of errno.h).
EXPORTED int explorer_bind(const int *chosen, int count)
{
    if (count < 1 || count > MOST_THREADS)
        return EINVAL;
#if defined(__linux__)
    for (int number = 0; number < count; number++) {
        if (chosen[number] < 0 || chosen[number] >= CPU_SETSIZE)
            return EINVAL;
        processors[number] = chosen[number];
    }
    processor_count = count;
    return 0;
#else
    (void)chosen;
    return ENOTSUP;
#endif
}

// Runs all launches. Returns 0, or an error number (of errno.h) if nothing was run. `tap` (may be
// NULL) is called after every launch, while nothing else runs. `nanoseconds` (may be NULL) gets
// the start and the end of every launch since the start of the call.
EXPORTED int explorer_run(
    char *arena, const char *weights, int threads, void (*tap)(int launch, void *context),
    void *context, unsigned long long *nanoseconds)
{
    if (threads < 1 || threads > MOST_THREADS)
        return EINVAL;
    if (SHARED_OPERATIONS < LEAST_SHARED_OPERATIONS)
        threads = 1;
    if (threads > 1) {
        pthread_mutex_lock(&run_mutex);
        const int error = start_workers(threads - 1);
        if (error) {
            pthread_mutex_unlock(&run_mutex);
            return error;
        }
    }
    const unsigned long long origin = nanoseconds ? nanoseconds_now() : 0;
    if (threads == 1 && !tap) {
        run_alone(0, SECTION_COUNT, arena, weights, nanoseconds, origin);
        return 0;
    }
    unsigned job = 0;
    if (!tap)
        job = publish_job(
            arena, weights, 0, SECTION_COUNT, threads, nanoseconds, origin);
    // With a tap every shared section is a job of its own, so that nobody runs ahead of the tap.
    for (int number = 0; number < SECTION_COUNT; number += tap ? 1 : sections[number].together) {
        const struct Section *section = &sections[number];
        if (tap && (threads == 1 || !is_shared(number))) {
            run_alone(number, 1, arena, weights, nanoseconds, origin);
        } else {
            const bool is_timed = nanoseconds && is_shared(number);
            if (tap)
                job = publish_job(
                    arena, weights, number, number + 1, threads, nanoseconds, origin);
            work_on(number, job, arena, weights);
            if (is_timed && opens_launch(number))
                nanoseconds[2 * section->launch] = atomic_load(&progress[number].began);
            if (is_timed && closes_launch(number))
                nanoseconds[2 * section->launch + 1] = atomic_load(&progress[number].ended);
        }
        if (tap && closes_launch(number))
            tap(section->launch, context);
    }
    if (threads > 1)
        pthread_mutex_unlock(&run_mutex);
    return 0;
}

// Ends the worker threads; to be called before the library is unloaded.
EXPORTED void explorer_stop(void)
{
    pthread_mutex_lock(&run_mutex);
    atomic_store(&workers_stop, true);
    wake_workers();
    for (int number = 0; number < worker_count; number++)
        pthread_join(workers[number], NULL);
    worker_count = 0;
    atomic_store(&workers_stop, false);
    pthread_mutex_unlock(&run_mutex);
}
