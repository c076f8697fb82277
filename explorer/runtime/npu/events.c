// In which cycle each instruction begins and ends.
//
// A queue executes its instructions in order, one at a time. One begins when it has been fetched,
// the tokens that it takes have been given, there is room for those that it gives, a channel of its
// DMA engine is free, and so is a port of every bank that it touches. Of the instructions that
// could begin, the one with the earliest cycle does; of several the one of the first queue. So a
// cycle is the same in every run.

enum { WAIT_FETCH, WAIT_TOKEN, WAIT_ROOM, WAIT_CHANNEL, WAIT_BANK };
enum { MAX_QUEUES = 8 };

static i64 position[MAX_QUEUES], ready[MAX_QUEUES], waiting[MAX_QUEUES];
static i64 pushed[2 * MAX_QUEUES], popped[2 * MAX_QUEUES];
static i64 fetched, fetch_cycle;

// Tokens between queue q and q + 1: lane 2q forwards, lane 2q + 1 backwards.
static i64 lane_of(i64 queue, int is_pop, int is_after) {
  i64 border = is_after ? queue : queue - 1;
  if (border < 0 || border >= config[C_QUEUES] - 1) return -1;
  return 2 * border + (is_pop == is_after);
}

static i64 *push_times(i64 lane) { return I64_AT(H_PUSHES) + lane * header[H_INSTRUCTIONS]; }
static i64 *pop_times(i64 lane) { return I64_AT(H_POPS) + lane * header[H_INSTRUCTIONS]; }

// A lane's tokens wait in the queue that takes them.
static i64 room_of(i64 lane) {
  i64 taker = lane / 2 + (lane % 2 == 0);
  return config[C_QUEUE_TOKENS + taker];
}

static const i64 *instruction(i64 number) { return I64_AT(H_TABLE) + number * COLUMNS; }
static i64 plan(i64 number, i64 entry) { return I64_AT(H_PLANS)[number * PLAN_FIELDS + entry]; }

static void later(i64 *cycle, i64 *event, int cause, i64 other) {
  if (other <= *cycle) return;
  event[E_WAITS + cause] += other - *cycle;
  *cycle = other;
}

static i64 *free_port(i64 memory, i64 bank) {
  i64 *ports = I64_AT(H_PORTS) + config[C_FIRST_PORT + memory] + bank * config[C_PORTS + memory];
  i64 *best = ports;
  for (i64 i = 1; i < config[C_PORTS + memory]; i++)
    if (ports[i] < *best) best = ports + i;
  return best;
}

static i64 *free_channel(i64 engine) {
  i64 *channels = I64_AT(H_CHANNELS) + engine * MAX_CHANNELS, *best = channels;
  for (i64 i = 1; i < config[C_CHANNELS + engine]; i++)
    if (channels[i] < *best) best = channels + i;
  return best;
}

// Calls for every bank once: an instruction takes one port of it, whatever it does there.
static void each_bank(i64 number, i64 *cycle, i64 *event, i64 taken_until) {
  Access found[MAX_ACCESSES];
  int count = accesses_of(instruction(number), found);
  for (i64 memory = 0; memory < config[C_SCRATCHPADS]; memory++) {
    i64 banks = config[C_BANKS + memory], bytes = config[C_BANK_BYTES + memory];
    for (i64 bank = 0; bank < banks; bank++) {
      int touched = 0;
      for (int i = 0; i < count; i++) {
        i64 content = found[i].content, size = SPACE(content, S_ELEMENT_BYTES);
        if (SPACE(content, S_MEMORY) != memory) continue;
        touched |= found[i].first * size < (bank + 1) * bytes && (found[i].last + 1) * size > bank * bytes;
      }
      if (!touched) continue;
      i64 *port = free_port(memory, bank);
      if (cycle) later(cycle, event, WAIT_BANK, *port);
      else *port = taken_until;
    }
  }
}

// The cycle in which the first instruction of a queue can begin, with its waits; -1: not yet known.
static i64 earliest(i64 queue, i64 number, i64 *event) {
  const i64 *in = instruction(number);
  i64 cycle = ready[queue];
  memset(event, 0, EVENT_FIELDS * sizeof(i64));
  later(&cycle, event, WAIT_FETCH, plan(number, P_ARRIVAL));
  for (int after = 0; after < 2; after++) {
    i64 lane = lane_of(queue, 1, after);
    if (!in[after ? I_POP_AFTER : I_POP_BEFORE]) continue;
    if (lane < 0 || popped[lane] >= pushed[lane]) return -1;
    later(&cycle, event, WAIT_TOKEN, push_times(lane)[popped[lane]]);
  }
  for (int after = 0; after < 2; after++) {
    i64 lane = lane_of(queue, 0, after);
    if (!in[after ? I_PUSH_AFTER : I_PUSH_BEFORE]) continue;
    if (lane < 0 || pushed[lane] - popped[lane] >= room_of(lane)) return -1;
    if (pushed[lane] >= room_of(lane))
      later(&cycle, event, WAIT_ROOM, pop_times(lane)[pushed[lane] - room_of(lane)]);
  }
  if (plan(number, P_DMA) >= 0) later(&cycle, event, WAIT_CHANNEL, *free_channel(plan(number, P_DMA)));
  each_bank(number, &cycle, event, 0);
  return cycle;
}

// Hands instructions to their queues while there is room.
static void fetch(void) {
  while (fetched < header[H_INSTRUCTIONS]) {
    i64 queue = plan(fetched, P_QUEUE), room = config[C_QUEUE_ENTRIES + queue];
    if (waiting[queue] >= room) return;
    i64 *arrival = &I64_AT(H_PLANS)[fetched * PLAN_FIELDS + P_ARRIVAL];
    fetch_cycle += config[C_FETCH_CYCLES];
    if (fetch_cycle < *arrival) fetch_cycle = *arrival;  // when the entry that it takes became free
    *arrival = fetch_cycle;
    waiting[queue]++, fetched++;
  }
}

static void begin(i64 queue, i64 number, i64 cycle, i64 *event) {
  const i64 *in = instruction(number);
  i64 end = cycle + plan(number, P_CYCLES);
  event[E_START] = cycle, event[E_END] = end;
  for (int after = 0; after < 2; after++) {
    i64 lane = lane_of(queue, 1, after);
    if (in[after ? I_POP_AFTER : I_POP_BEFORE]) pop_times(lane)[popped[lane]++] = cycle;
    lane = lane_of(queue, 0, after);
    if (in[after ? I_PUSH_AFTER : I_PUSH_BEFORE]) push_times(lane)[pushed[lane]++] = end;
  }
  if (plan(number, P_DMA) >= 0) *free_channel(plan(number, P_DMA)) = end;
  each_bank(number, 0, event, end);
  ready[queue] = end, position[queue]++, waiting[queue]--;
  // The instruction that takes the entry in the queue arrives no earlier.
  i64 next = position[queue] - 1 + config[C_QUEUE_ENTRIES + queue];
  if (next < config[C_QUEUE_LENGTHS + queue]) {
    i64 heir = I64_AT(H_ORDERS)[config[C_QUEUE_STARTS + queue] + next];
    I64_AT(H_PLANS)[heir * PLAN_FIELDS + P_ARRIVAL] = cycle;
  }
}

i64 simulate(void *memory) {
  base = memory, header = memory;
  config = I64_AT(H_CONFIG);
  memset(position, 0, sizeof position), memset(ready, 0, sizeof ready);
  memset(waiting, 0, sizeof waiting);
  memset(pushed, 0, sizeof pushed), memset(popped, 0, sizeof popped);
  fetched = fetch_cycle = 0;
  i64 event[EVENT_FIELDS], best_event[EVENT_FIELDS];
  for (i64 done = 0; done < header[H_INSTRUCTIONS]; done++) {
    fetch();
    i64 best = -1, best_cycle = 0, stuck = -1;
    for (i64 queue = 0; queue < config[C_QUEUES]; queue++) {
      if (!waiting[queue]) continue;
      i64 number = I64_AT(H_ORDERS)[config[C_QUEUE_STARTS + queue] + position[queue]];
      i64 cycle = earliest(queue, number, event);
      if (cycle < 0 && (stuck < 0 || number < stuck)) stuck = number;
      if (cycle < 0 || (best >= 0 && cycle >= best_cycle)) continue;
      best = queue, best_cycle = cycle;
      memcpy(best_event, event, sizeof event);
    }
    if (best < 0) return fault(stuck, FAULT_DEADLOCK, 0, done, header[H_INSTRUCTIONS]);
    i64 number = I64_AT(H_ORDERS)[config[C_QUEUE_STARTS + best] + position[best]];
    i64 status = execute(number, instruction(number));
    if (status) return status;
    read_taps(number, plan(number, P_TAP));
    begin(best, number, best_cycle, best_event);
    memcpy(I64_AT(H_EVENTS) + number * EVENT_FIELDS, best_event, sizeof best_event);
    header[H_DONE] = done + 1;
  }
  return OK;
}
