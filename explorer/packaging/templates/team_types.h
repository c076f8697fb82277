// The threads of a run: the caller's, and those that @name@_init starts and @name@_close ends.
#define @NAME@_THREADS @threads@

struct @name@_worker {
    struct @name@ *model;
    pthread_t handle;
    int thread;
};

struct @name@_team {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct @name@_worker workers[@NAME@_THREADS - 1];
    enum { @NAME@_TEAM_STARTS, @NAME@_TEAM_RUNS, @NAME@_TEAM_ENDS } state;
    unsigned round, arrived;
    int first, end;  // launches of the present job
};
