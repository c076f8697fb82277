// A run is shared by @NAME@_THREADS threads: the caller's, and workers that sleep between runs.
// Every thread runs its share of the tasks of a phase, and waits until all have done theirs.
#define SPINS 2000  // looks at the round before a thread sleeps

static void wait_for_all(struct @name@_team *team)
{
    const unsigned seen = __atomic_load_n(&team->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == @NAME@_THREADS) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        pthread_mutex_lock(&team->mutex);
        __atomic_store_n(&team->round, seen + 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&team->changed);
        pthread_mutex_unlock(&team->mutex);
        return;
    }
    for (int spins = 0; spins < SPINS; spins++)
        if (__atomic_load_n(&team->round, __ATOMIC_ACQUIRE) != seen)
            return;
    pthread_mutex_lock(&team->mutex);
    while (__atomic_load_n(&team->round, __ATOMIC_RELAXED) == seen)
        pthread_cond_wait(&team->changed, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

