//! types
// A section is one phase of one launch. `run` adds the launch's offsets to the base addresses.
struct Section {
    void (*run)(char *arena, const char *weights, const size_t *offsets, long lo, long hi);
    const size_t *offsets;
    long tasks;
    long chunk;  // how many tasks a thread claims at once
    int launch;
    int together;  // sections from here on that one thread runs as one claim; 0 behind the first
    long first, rows;  // tasks from `first` on are whole rounds over so many rows; 0: no rows
};

//! run
// The driver. A program with little to share is run by the caller alone. Else threads walk the
// table of sections together. Neighbours of which none can be shared are one claim of one thread.
//
// Every thread has a lane of each section: a band of rows, the same part of an image in every
// section, so that it finds what it wrote before in its own cache. It claims the next few tasks of
// its lane by compare-and-swap, then those that are left in the others' lanes, and waits until all
// are done. So nobody ever waits for a thread that holds no task.
//
// Sections have tickets that only grow. One that is over has left a newer ticket in its place, so
// that a thread that comes late finds nothing to take, and nothing has to be cleared.

#define MAX_THREADS 256
#define MAX_LANES 16         // threads beyond share these
#define PLACES 4              // for progress; a section begins when all before it are over
#define RENEWAL_BITS 30       // of tickets, between renewals of all places
#define SPINS_FOR_TASKS 300   // pauses at the end of a section before the processor is yielded
#define SPINS_FOR_JOBS 4000   // pauses between jobs before a worker sleeps
// Below this the caller works alone: 5 to 30 microseconds, as long as it takes to wake a thread.
#define MIN_SHARED_OPERATIONS 100000
#define MAX_RECORDED 32  // threads whose shares are kept
#ifndef MAX_SECTIONS
#define MAX_SECTIONS SECTION_COUNT
#endif

struct Lane {
    _Alignas(64) atomic_ullong claimed;  // ticket << 32 | items of the lane that are taken
};

struct Progress {
    struct Lane lanes[MAX_LANES];
    _Alignas(64) atomic_ullong done;  // ticket << 32 | tasks that are done
};

struct Times {
    atomic_ullong began, ended;  // nanoseconds, of a section that threads share
};

// What a thread did of a section that threads share, or of several that one of them runs.
struct Share {
    unsigned long long began, ended;  // nanoseconds since the start of the call
    unsigned long long tasks;         // 0: none of them was this thread's
    int first_launch, last_launch;
};

struct Job {
    char *arena;
    const char *weights;
    unsigned long long *nanoseconds;  // NULL: nobody asks for times
    unsigned long long origin;
    int first, last, threads;
    unsigned ticket;  // of the section `first`
};

static struct Progress progress[PLACES];
static struct Times times[MAX_SECTIONS + 1];  // only where times are asked for
static struct Share shares[MAX_RECORDED][MAX_SECTIONS + 1];  // of the last run that was recorded
static atomic_bool is_recording;
static _Alignas(64) atomic_uint job_number;  // odd while the job is being described
static _Atomic(char *) job_arena;
static _Atomic(const char *) job_weights;
static _Atomic(unsigned long long *) job_nanoseconds;
static atomic_ullong job_origin;
static atomic_int job_first, job_last, job_threads;
static atomic_uint job_ticket;
static unsigned next_ticket = 1;
static atomic_bool workers_stop;
static atomic_int workers_asleep;
static pthread_mutex_t sleep_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t run_mutex = PTHREAD_MUTEX_INITIALIZER;  // one run on several threads at once
static pthread_t workers[MAX_THREADS];
static int worker_count;
static int processors[MAX_THREADS];  // that the threads are bound to, the caller's first
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

static bool is_shared(int number)
{
    return sections[number].chunk < sections[number].tasks;
}

// Of `count` equal parts of `whole` where number `part` begins.
static inline long begin_of(long whole, int part, int count)
{
    return whole * part / count;
}

// A section's tasks are those before its rows, rounds of rows, and those behind.
static inline long rounds_of(const struct Section *section)
{
    return section->rows ? (section->tasks - section->first) / section->rows : 0;
}

// How many tasks a lane has. The first has those before the rows, the last those behind.
static long items_of(const struct Section *section, int lane, int lanes)
{
    if (!section->rows)
        return begin_of(section->tasks, lane + 1, lanes) - begin_of(section->tasks, lane, lanes);
    const long width =
        begin_of(section->rows, lane + 1, lanes) - begin_of(section->rows, lane, lanes);
    const long rounds = rounds_of(section);
    return width * rounds + (lane == 0 ? section->first : 0)
        + (lane == lanes - 1 ? section->tasks - section->first - rounds * section->rows : 0);
}

// Runs the items [lo, hi) of a lane.
static void run_items(
    const struct Section *section, int lane, int lanes, long lo, long hi, char *arena,
    const char *weights)
{
    const size_t *const offsets = section->offsets;
    if (!section->rows) {
        const long begin = begin_of(section->tasks, lane, lanes);
        section->run(arena, weights, offsets, begin + lo, begin + hi);
        return;
    }
    const long before = lane == 0 ? section->first : 0;
    if (lo < before)
        section->run(arena, weights, offsets, lo, hi < before ? hi : before);
    const long begin = begin_of(section->rows, lane, lanes);
    const long width = begin_of(section->rows, lane + 1, lanes) - begin;
    const long rounds = rounds_of(section);
    const long behind = before + width * rounds;
    for (long item = lo < before ? before : lo; item < hi && item < behind;) {
        const long round = (item - before) / width, row = (item - before) % width;
        const long left = hi < behind ? hi - item : behind - item;
        const long count = left < width - row ? left : width - row;
        const long task = section->first + round * section->rows + begin + row;
        section->run(arena, weights, offsets, task, task + count);
        item += count;
    }
    const long shift = section->first + rounds * section->rows - behind;
    if (hi > behind)
        section->run(arena, weights, offsets, (lo > behind ? lo : behind) + shift, hi + shift);
}

// Whether a ticket was given out after another one; tickets wrap around.
static inline bool is_newer(unsigned ticket, unsigned other)
{
    return (int)(ticket - other) > 0;
}

// Takes the next items of a lane: their number, the first in `lo`; 0 when none is left, less when
// the section is over.
static long claim(struct Lane *lane, unsigned ticket, long items, long chunk, long *lo)
{
    unsigned long long claimed = atomic_load_explicit(&lane->claimed, memory_order_acquire);
    for (;;) {
        const unsigned known = (unsigned)(claimed >> 32);
        if (is_newer(known, ticket))
            return -1;
        *lo = known == ticket ? (long)(claimed & 0xffffffffu) : 0;
        if (*lo >= items)
            return 0;
        const long count = items - *lo < chunk ? items - *lo : chunk;
        const unsigned long long next =
            (unsigned long long)ticket << 32 | (unsigned long long)(*lo + count);
        if (atomic_compare_exchange_weak(&lane->claimed, &claimed, next))
            return count;
    }
}

static void add_done(struct Progress *state, unsigned ticket, long count)
{
    const unsigned long long none = (unsigned long long)ticket << 32;
    unsigned long long done = atomic_load_explicit(&state->done, memory_order_relaxed);
    unsigned long long next;
    do
        next = ((unsigned)(done >> 32) == ticket ? done : none) + (unsigned long long)count;
    while (!atomic_compare_exchange_weak(&state->done, &done, next));
}

// Waits until all tasks of a section are done.
static void wait_for(struct Progress *state, unsigned ticket, long tasks)
{
    for (int spins = 0;;) {
        const unsigned long long done = atomic_load_explicit(&state->done, memory_order_acquire);
        const unsigned known = (unsigned)(done >> 32);
        if (is_newer(known, ticket) || (known == ticket && (long)(done & 0xffffffffu) >= tasks))
            return;
        if (spins++ < SPINS_FOR_TASKS)
            pause_briefly();
        else
            sched_yield();
    }
}

static void lower_to(atomic_ullong *value, unsigned long long most)
{
    unsigned long long known = atomic_load(value);
    while (known > most && !atomic_compare_exchange_weak(value, &known, most))
        ;
}

static void raise_to(atomic_ullong *value, unsigned long long least)
{
    unsigned long long known = atomic_load(value);
    while (known < least && !atomic_compare_exchange_weak(value, &known, least))
        ;
}

static bool is_recorded(const struct Job *job, int thread)
{
    return job->nanoseconds && thread < MAX_RECORDED && atomic_load(&is_recording);
}

// Runs tasks of a section until none is left, then waits until all are done.
static void work_on(const struct Job *job, int number, int thread)
{
    const struct Section *section = &sections[number];
    const unsigned ticket = job->ticket + (unsigned)(number - job->first);
    struct Progress *state = &progress[ticket % PLACES];
    long lo, count, done = 0;
    const bool recorded = is_recorded(job, thread);
    struct Share share = {0, 0, 0, section->launch, section->launch};
    if (!is_shared(number)) {
        if (claim(&state->lanes[0], ticket, 1, 1, &lo) > 0) {
            if (recorded)
                share.began = nanoseconds_now() - job->origin;
            run_alone(
                number, section->together, job->arena, job->weights, job->nanoseconds,
                job->origin);
            if (recorded) {
                share.ended = nanoseconds_now() - job->origin;
                share.tasks = 1;
                share.last_launch = sections[number + section->together - 1].launch;
                shares[thread][number] = share;
            }
            add_done(state, ticket, 1);
        } else {
            wait_for(state, ticket, 1);
        }
        return;
    }
    const int lanes = job->threads < MAX_LANES ? job->threads : MAX_LANES;
    for (int offset = 0; offset < lanes; offset++) {
        const int lane = (thread + offset) % lanes;
        const long items = items_of(section, lane, lanes);
        while ((count = claim(&state->lanes[lane], ticket, items, section->chunk, &lo)) > 0) {
            if (job->nanoseconds && done == 0) {
                share.began = nanoseconds_now() - job->origin;
                lower_to(&times[number].began, share.began);
            }
            run_items(section, lane, lanes, lo, lo + count, job->arena, job->weights);
            done += count;
        }
        if (count < 0)
            break;
    }
    if (done > 0 && job->nanoseconds) {
        share.ended = nanoseconds_now() - job->origin;
        raise_to(&times[number].ended, share.ended);
    }
    if (done > 0 && recorded) {
        share.tasks = (unsigned long long)done;
        shares[thread][number] = share;
    }
    if (done > 0)
        add_done(state, ticket, done);
    wait_for(state, ticket, section->tasks);
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
    const int thread = 1 + (int)(intptr_t)index;
    unsigned seen = 0;
    for (;;) {
        int spins = 0;
        while (atomic_load_explicit(&job_number, memory_order_acquire) == seen) {
            if (spins++ < SPINS_FOR_JOBS)
                pause_briefly();
            else
                sleep_until_job_changes(seen);
        }
        seen = atomic_load(&job_number);
        if (atomic_load(&workers_stop))
            return NULL;
        const struct Job job = {
            atomic_load(&job_arena),       atomic_load(&job_weights),
            atomic_load(&job_nanoseconds), atomic_load(&job_origin),
            atomic_load(&job_first),       atomic_load(&job_last),
            atomic_load(&job_threads),     atomic_load(&job_ticket),
        };
        // A job that is being described, or has changed meanwhile, is looked at again.
        if (seen % 2 || atomic_load(&job_number) != seen || thread >= job.threads)
            continue;
        for (int number = job.first; number < job.last; number += sections[number].together)
            work_on(&job, number, thread);
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

// Tickets wrap around. Before one could be mistaken for an older one, all places get the newest
// that is over, of which nothing is left to take.
static void renew_places(unsigned ticket)
{
    const unsigned long long over = (unsigned long long)(ticket - 1) << 32 | 0xffffffffu;
    for (int place = 0; place < PLACES; place++) {
        for (int lane = 0; lane < MAX_LANES; lane++)
            atomic_store(&progress[place].lanes[lane].claimed, over);
        atomic_store(&progress[place].done, over);
    }
}

// Makes the sections from `first` to before `last` the present job.
static void publish_job(struct Job *job, int first, int last)
{
    job->first = first;
    job->last = last;
    job->ticket = next_ticket;
    next_ticket += (unsigned)(last - first);
    if ((job->ticket ^ next_ticket) >> RENEWAL_BITS)
        renew_places(job->ticket);
    for (int number = first; job->nanoseconds && number < last; number++) {
        atomic_store(&times[number].began, ULLONG_MAX);
        atomic_store(&times[number].ended, 0);
    }
    atomic_fetch_add(&job_number, 1);
    atomic_store(&job_arena, job->arena);
    atomic_store(&job_weights, job->weights);
    atomic_store(&job_nanoseconds, job->nanoseconds);
    atomic_store(&job_origin, job->origin);
    atomic_store(&job_first, first);
    atomic_store(&job_last, last);
    atomic_store(&job_threads, job->threads);
    atomic_store(&job_ticket, job->ticket);
    wake_workers();
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
    if (count < 1 || count > MAX_THREADS)
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

// Whether runs with times keep what each thread did from now on.
EXPORTED void explorer_record(int on)
{
    atomic_store(&is_recording, on != 0);
}

// What a thread did in the last run that was recorded, in the order of the sections: first launch,
// last launch, beginning, end and tasks of each share. Returns how many there are, of which the
// first `most` are written.
EXPORTED int explorer_shares(int thread, unsigned long long *found, int most)
{
    int count = 0;
    for (int number = 0; thread >= 0 && thread < MAX_RECORDED && number < SECTION_COUNT; number++) {
        const struct Share *share = &shares[thread][number];
        if (share->tasks == 0)
            continue;
        if (count < most) {
            unsigned long long *const place = found + 5 * count;
            place[0] = (unsigned long long)share->first_launch;
            place[1] = (unsigned long long)share->last_launch;
            place[2] = share->began;
            place[3] = share->ended;
            place[4] = share->tasks;
        }
        count++;
    }
    return count;
}

// Runs all launches. Returns 0, or an error number (of errno.h) if nothing was run. `tap` (may be
// NULL) is called after every launch, while nothing else runs. `nanoseconds` (may be NULL) gets
// the start and the end of every launch since the start of the call.
EXPORTED int explorer_run(
    char *arena, const char *weights, int threads, void (*tap)(int launch, void *context),
    void *context, unsigned long long *nanoseconds)
{
    if (threads < 1 || threads > MAX_THREADS)
        return EINVAL;
    if (SHARED_OPERATIONS < MIN_SHARED_OPERATIONS)
        threads = 1;
    if (threads > 1) {
        pthread_mutex_lock(&run_mutex);
        const int error = start_workers(threads - 1);
        if (error) {
            pthread_mutex_unlock(&run_mutex);
            return error;
        }
    }
    for (int thread = 0; thread < threads && thread < MAX_RECORDED; thread++)
        for (int number = 0; atomic_load(&is_recording) && number < SECTION_COUNT; number++)
            shares[thread][number].tasks = 0;
    const unsigned long long origin = nanoseconds ? nanoseconds_now() : 0;
    if (threads == 1 && !tap) {
        run_alone(0, SECTION_COUNT, arena, weights, nanoseconds, origin);
        return 0;
    }
    struct Job job = {arena, weights, nanoseconds, origin, 0, 0, threads, 0};
    if (!tap)
        publish_job(&job, 0, SECTION_COUNT);
    // With a tap every shared section is a job of its own, so that nobody runs ahead of the tap.
    for (int number = 0; number < SECTION_COUNT; number += tap ? 1 : sections[number].together) {
        const int launch = sections[number].launch;
        if (tap && (threads == 1 || !is_shared(number))) {
            run_alone(number, 1, arena, weights, nanoseconds, origin);
        } else {
            const bool is_timed = nanoseconds && is_shared(number);
            if (tap)
                publish_job(&job, number, number + 1);
            work_on(&job, number, 0);
            if (is_timed && opens_launch(number))
                nanoseconds[2 * launch] = atomic_load(&times[number].began);
            if (is_timed && closes_launch(number))
                nanoseconds[2 * launch + 1] = atomic_load(&times[number].ended);
        }
        if (tap && closes_launch(number))
            tap(launch, context);
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
    atomic_fetch_add(&job_number, 1);
    wake_workers();
    for (int number = 0; number < worker_count; number++)
        pthread_join(workers[number], NULL);
    worker_count = 0;
    atomic_store(&workers_stop, false);
    pthread_mutex_unlock(&run_mutex);
}
