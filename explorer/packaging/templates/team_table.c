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

// A thread's share of the launches that the team has to run.
static void run_share(struct @name@ *model, int thread)
{
    const int first = model->team.first, end = model->team.end;
    for (int number = first; number < end; number++) {
        // Volatile: compilers that know which function it is may move its loads and stores past
        // those of a kernel that has the same memory for numbers of another type.
        void (*volatile run)(@parameters@) = launches[number].run;
        run(@memories@, model->weights, launches[number].offsets, &model->team, thread);
    }
}

static void run_launches(struct @name@ *model, int first, int end)
{
    if (first >= end)
        return;
    model->team.first = first;
    model->team.end = end;
    wait_for_all(&model->team);
    run_share(model, 0);
}

static void *work(void *given)
{
    const struct @name@_worker *worker = (const struct @name@_worker *)given;
    struct @name@_team *team = &worker->model->team;
    // Not before all workers are there: if one cannot be started, the others end here.
    pthread_mutex_lock(&team->mutex);
    while (team->state == @NAME@_TEAM_STARTS)
        pthread_cond_wait(&team->changed, &team->mutex);
    const int is_over = team->state == @NAME@_TEAM_ENDS;
    pthread_mutex_unlock(&team->mutex);
    while (!is_over) {
        wait_for_all(team);
        if (team->state == @NAME@_TEAM_ENDS)
            break;
        run_share(worker->model, worker->thread);
    }
    return NULL;
}

static void join_workers(struct @name@_team *team, int count)
{
    for (int number = 0; number < count; number++)
        pthread_join(team->workers[number].handle, NULL);
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->mutex);
}

static int start_workers(struct @name@ *model)
{
    struct @name@_team *team = &model->team;
    int count = 0;
    team->round = 0;
    team->arrived = 0;
    team->state = @NAME@_TEAM_STARTS;
    if (pthread_mutex_init(&team->mutex, NULL) != 0)
        return @NAME@_NO_THREADS;
    if (pthread_cond_init(&team->changed, NULL) != 0) {
        pthread_mutex_destroy(&team->mutex);
        return @NAME@_NO_THREADS;
    }
    for (; count < @NAME@_THREADS - 1; count++) {
        struct @name@_worker *worker = &team->workers[count];
        worker->model = model;
        worker->thread = count + 1;
        if (pthread_create(&worker->handle, NULL, work, worker) != 0)
            break;
    }
    pthread_mutex_lock(&team->mutex);
    team->state = count == @NAME@_THREADS - 1 ? @NAME@_TEAM_RUNS : @NAME@_TEAM_ENDS;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->mutex);
    if (count == @NAME@_THREADS - 1)
        return @NAME@_OK;
    join_workers(team, count);
    return @NAME@_NO_THREADS;
}
