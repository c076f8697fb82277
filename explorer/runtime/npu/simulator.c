// The simulator of instruction streams: what instructions compute, and in which cycle they run.
//
// All memory is laid out by image.py in one block, whose header says where everything lies; the
// names of its entries, H_... and C_..., and of the columns of instructions, I_..., are written
// above this text by image.py as well. Nothing is allocated here. Every index that an instruction
// or a micro-operation gives is checked before it is used: what lies outside is a fault with the
// instruction's number.

#include <stdint.h>
#include <string.h>

typedef int64_t i64;

enum { OK, FAULT_SCRATCHPAD, FAULT_GLOBAL, FAULT_DEADLOCK, FAULT_WORK, FAULT_CODE };
enum { LOAD, STORE, MULTIPLY, FINISH, VECTOR, TABLE, REQUANTIZE, SOFTMAX, NORMALIZE };
enum { MICRO, WEIGHTS, ACTIVATIONS, ACCUMULATORS, OUTPUTS, WIDENED, TABLES, GATHERED, DIAGONALS,
       CONTENTS };
enum { MINIMUM, MAXIMUM, ADD, SHIFT_RIGHT, MULTIPLIED };
enum { MULTIPLIER_SHIFT, DOUBLING_HIGH_MULTIPLY, SHIFT };
enum { NEAREST_EVEN, NEAREST_UP, NEAREST_AWAY, DOWN, TO_ZERO };
enum { MAX_ACCESSES = 4 };

static uint8_t *base;
static i64 *header;
static const i64 *config;

#define SPACE(content, field) (config[C_SPACES + (content) * SPACE_FIELDS + (field)])
#define I64_AT(entry) ((i64 *)(base + header[entry]))

// ---------------------------------------------------------------- numbers of 4, 8, 16 and 32 bits

static inline int32_t get(const uint8_t *element, i64 index, i64 bits) {
  if (bits == 8) return (int8_t)element[index];
  if (bits == 4) return (int8_t)(uint8_t)(element[index >> 1] << (index & 1 ? 0 : 4)) >> 4;
  if (bits == 16) {
    int16_t value;
    memcpy(&value, element + 2 * index, 2);
    return value;
  }
  int32_t value;
  memcpy(&value, element + 4 * index, 4);
  return value;
}

static inline void put(uint8_t *element, i64 index, i64 bits, int32_t value) {
  if (bits == 8) {
    element[index] = (uint8_t)value;
  } else if (bits == 4) {
    int shift = index & 1 ? 4 : 0;
    element[index >> 1] = (uint8_t)((element[index >> 1] & ~(15 << shift)) | (value & 15) << shift);
  } else if (bits == 16) {
    int16_t narrow = (int16_t)value;
    memcpy(element + 2 * index, &narrow, 2);
  } else {
    memcpy(element + 4 * index, &value, 4);
  }
}

static uint8_t *scratchpad(i64 content) {
  return base + header[H_SCRATCHPADS] + SPACE(content, S_START);
}

static uint8_t *element_of(i64 content, i64 index) {
  return scratchpad(content) + index * SPACE(content, S_ELEMENT_BYTES);
}

// ---------------------------------------------------------------- which elements are touched

typedef struct {
  i64 content, first, last;
} Access;

static i64 fault(i64 number, i64 code, i64 content, i64 value, i64 limit) {
  header[H_FAULT] = code;
  header[H_FAULT_INSTRUCTION] = number;
  header[H_FAULT_CONTENT] = content;
  header[H_FAULT_VALUE] = value;
  header[H_FAULT_LIMIT] = limit;
  return code;
}

static i64 micro_field(i64 index, i64 field) {
  uint64_t word = 0;
  memcpy(&word, element_of(MICRO, index), (size_t)SPACE(MICRO, S_ELEMENT_BYTES));
  return (i64)(word >> config[C_MICRO + 2 * field] & ((1ULL << config[C_MICRO + 2 * field + 1]) - 1));
}

static int is_of_rows(i64 opcode) { return opcode == SOFTMAX || opcode == NORMALIZE; }

// Accumulators that the constants of a row fill.
static i64 row_constants(const i64 *in) {
  if (in[I_OPCODE] == NORMALIZE) return 2 + 3 * in[I_COUNT];
  return 2 + (EXPONENTIALS + config[C_COLUMNS] - 1) / config[C_COLUMNS];
}

// First and last byte + 1 of the end of a transfer that lies in global memory, or on the chip.
static void other_end(const i64 *in, i64 *start, i64 *end) {
  i64 outside = SPACE(in[I_MEMORY], S_GLOBAL_BYTES);
  *start = in[I_GLOBAL_ADDRESS] * outside;
  *end = *start + ((in[I_Y_SIZE] - 1) * in[I_X_STRIDE] + 1) * outside;
  *end += (in[I_X_SIZE] - 1) * in[I_X_STEP] * outside;
  if (in[I_CODED_BYTES]) *end = *start + in[I_CODED_BYTES];
}

// The least and greatest element of each content that an instruction touches. All terms of an index
// are positive, so the extremes lie at the corners of the loops.
static int accesses_of(const i64 *in, Access *found) {
  i64 opcode = in[I_OPCODE];
  if (opcode == FINISH) return 0;
  if (opcode == LOAD || opcode == STORE) {
    i64 count = in[I_X_SIZE] + in[I_X_PAD_BEFORE] + in[I_X_PAD_AFTER];
    count *= in[I_Y_SIZE] + in[I_Y_PAD_BEFORE] + in[I_Y_PAD_AFTER];
    if (!in[I_X_SIZE] || !count) return 0;
    found[0] = (Access){in[I_MEMORY], in[I_SCRATCHPAD_ADDRESS], in[I_SCRATCHPAD_ADDRESS] + count - 1};
    if (!in[I_ON_CHIP] || !in[I_Y_SIZE]) return 1;
    i64 each = SPACE(ACTIVATIONS, S_ELEMENT_BYTES), start, end;
    other_end(in, &start, &end);
    found[1] = (Access){ACTIVATIONS, start / each, (end - 1) / each};
    return 2;
  }
  i64 outer = in[I_OUTER], inner = in[I_INNER], count = in[I_MICRO_END] - in[I_MICRO_BEGIN];
  if (count <= 0 || !outer || !inner || (opcode == MULTIPLY && !in[I_BATCH])) return 0;
  if (is_of_rows(opcode) && !in[I_COUNT]) return 0;
  found[0] = (Access){MICRO, in[I_MICRO_BEGIN], in[I_MICRO_END] - 1};
  if (found[0].last >= SPACE(MICRO, S_DEPTH)) return 1;  // refused before it is read
  i64 least[3] = {INT64_MAX, INT64_MAX, INT64_MAX}, most[3] = {0, 0, 0};
  for (i64 k = in[I_MICRO_BEGIN]; k < in[I_MICRO_END]; k++)
    for (int field = 0; field < 3; field++) {
      i64 value = micro_field(k, field);
      if (value < least[field]) least[field] = value;
      if (value > most[field]) most[field] = value;
    }
  most[0] += (outer - 1) * in[I_DESTINATION_OUTER] + (inner - 1) * in[I_DESTINATION_INNER];
  most[1] += (outer - 1) * in[I_SOURCE_OUTER] + (inner - 1) * in[I_SOURCE_INNER];
  most[2] += (outer - 1) * in[I_WEIGHT_OUTER] + (inner - 1) * in[I_WEIGHT_INNER];
  if (opcode == MULTIPLY) {
    most[0] += (in[I_BATCH] - 1) * in[I_DESTINATION_STEP];
    most[1] += (in[I_BATCH] - 1) * in[I_SOURCE_STEP];
  }
  if (is_of_rows(opcode)) {
    most[0] += (in[I_COUNT] - 1) * in[I_STEP];
    most[1] += row_constants(in) - 1;
  }
  found[1] = (Access){ACCUMULATORS, least[0], most[0]};
  if (opcode == MULTIPLY) {
    if (in[I_RESET]) return 2;
    found[2] = (Access){ACTIVATIONS, least[1], most[1]};
    found[3] = (Access){WEIGHTS, least[2], most[2]};
    return 4;
  }
  if (opcode == VECTOR && in[I_USE_IMMEDIATE]) return 2;
  if (opcode == REQUANTIZE) most[1] += 1 + in[I_BIASED];
  found[2] = (Access){ACCUMULATORS, least[1], most[1]};
  if (opcode != TABLE) return 3;
  found[3] = (Access){TABLES, in[I_TABLE], in[I_TABLE]};
  return 4;
}

static i64 check_bounds(i64 number, const i64 *in) {
  Access found[MAX_ACCESSES];
  int count = accesses_of(in, found);
  for (int i = 0; i < count; i++)
    if (found[i].last >= SPACE(found[i].content, S_DEPTH))
      return fault(number, FAULT_SCRATCHPAD, found[i].content, found[i].last,
                   SPACE(found[i].content, S_DEPTH));
  return OK;
}

// ---------------------------------------------------------------- what instructions compute

static void fill(uint8_t **at, i64 elements, const uint8_t *pattern, i64 bytes) {
  for (i64 i = 0; i < elements; i++, *at += bytes) memcpy(*at, pattern, (size_t)bytes);
}

static i64 number_bits(i64 content) {
  if (content == WEIGHTS || content == GATHERED || content == DIAGONALS)
    return config[C_WEIGHT_BITS];
  if (content == ACTIVATIONS) return config[C_INPUT_BITS];
  if (content == ACCUMULATORS || content == OUTPUTS || content == WIDENED)
    return config[C_ACCUMULATOR_BITS];
  return 8;
}

// A number for each column becomes weights: columns / rows elements with zeros around a diagonal.
static void expand(uint8_t *to, const uint8_t *from, i64 elements, i64 bytes) {
  i64 rows = config[C_ROWS], columns = config[C_COLUMNS], bits = config[C_WEIGHT_BITS];
  for (i64 i = 0; i < elements; i++, to += bytes) {
    memset(to, 0, (size_t)bytes);
    for (i64 c = 0; c < columns; c++)
      put(to, (c / rows * columns + c) * rows + c % rows, bits, get(from, i * columns + c, bits));
  }
}

static inline int bit_at(const uint8_t *data, i64 at) { return data[at >> 3] >> (7 - (at & 7)) & 1; }

// A block of coded weights: see explorer/targets/npu/coding.py. Nothing pads it.
static i64 decode(i64 number, const i64 *in, uint8_t *here, const uint8_t *data) {
  i64 content = in[I_MEMORY], outside = SPACE(content, S_GLOBAL_BYTES);
  i64 bytes = SPACE(content, S_ELEMENT_BYTES), bits = config[C_WEIGHT_BITS];
  i64 numbers = outside * 8 / bits, elements = in[I_Y_SIZE] * in[I_X_SIZE];
  i64 at = HEADER_BITS, end = in[I_CODED_BYTES] * 8, parameter = data[0];
  uint8_t *element = base + header[H_PATTERN];
  i64 wrong = fault(number, FAULT_CODE, content, elements * numbers, in[I_CODED_BYTES]);
  if (parameter >= bits) return wrong;
  for (i64 e = 0; e < elements; e++, here += bytes) {
    for (i64 i = 0; i < numbers; i++) {
      i64 ones = 0, z = 0;
      while (ones < ESCAPE && at < end && bit_at(data, at)) ones++, at++;
      at += ones < ESCAPE;
      i64 width = ones < ESCAPE ? parameter : bits;
      if (at + width > end) return wrong;
      for (i64 b = 0; b < width; b++) z = z << 1 | bit_at(data, at++);
      if (ones < ESCAPE) z |= ones << parameter;
      put(element, i, bits, (int32_t)(z & 1 ? -(z + 1) / 2 : z / 2));
    }
    if (content == DIAGONALS) expand(here, element, 1, bytes);
    else memcpy(here, element, (size_t)bytes);
  }
  if ((at + 7) / 8 != in[I_CODED_BYTES]) return wrong;
  I64_AT(H_COUNTERS)[K_LOADED + content] += in[I_CODED_BYTES];
  return header[H_FAULT] = OK;
}

static i64 transfer(i64 number, const i64 *in) {
  i64 content = in[I_MEMORY], bytes = SPACE(content, S_ELEMENT_BYTES);
  i64 outside = SPACE(content, S_GLOBAL_BYTES), stride = in[I_X_STRIDE];
  i64 *counters = I64_AT(H_COUNTERS);
  if (!in[I_X_SIZE]) return OK;
  i64 step = in[I_X_STEP] * outside, start, end;
  other_end(in, &start, &end);
  if (in[I_Y_SIZE] && !in[I_ON_CHIP] && end > header[H_IMAGE_BYTES])
    return fault(number, FAULT_GLOBAL, content, end, header[H_IMAGE_BYTES]);
  i64 moved = in[I_Y_SIZE] * in[I_X_SIZE] * outside;
  uint8_t *here = element_of(content, in[I_SCRATCHPAD_ADDRESS]);
  uint8_t *there = in[I_ON_CHIP] ? scratchpad(ACTIVATIONS) : base + header[H_IMAGE];
  there += in[I_Y_SIZE] ? start : 0;
  i64 numbers = bytes * 8 / number_bits(content), narrow = config[C_INPUT_BITS];
  i64 wide = config[C_ACCUMULATOR_BITS];
  if (in[I_OPCODE] == STORE) {
    for (i64 y = 0; y < in[I_Y_SIZE]; y++, there += stride * outside)
      for (i64 x = 0; x < in[I_X_SIZE]; x++, here += bytes) {
        uint8_t *to = there + x * step;
        if (content != OUTPUTS) memcpy(to, here, (size_t)bytes);
        else
          for (i64 i = 0; i < numbers; i++) put(to, i, narrow, get(here, i, wide));
      }
    counters[(in[I_ON_CHIP] ? K_MOVED : K_STORED) + content] += moved;
    return OK;
  }
  if (in[I_CODED_BYTES]) return decode(number, in, here, there);
  uint8_t *pattern = base + header[H_PATTERN];
  for (i64 i = 0; i < numbers; i++) put(pattern, i, number_bits(content), (int32_t)in[I_PAD_VALUE]);
  i64 width = in[I_X_PAD_BEFORE] + in[I_X_SIZE] + in[I_X_PAD_AFTER];
  fill(&here, width * in[I_Y_PAD_BEFORE], pattern, bytes);
  for (i64 y = 0; y < in[I_Y_SIZE]; y++, there += stride * outside) {
    fill(&here, in[I_X_PAD_BEFORE], pattern, bytes);
    // Elements that lie side by side are one piece.
    i64 pieces = step == outside ? 1 : in[I_X_SIZE], each = in[I_X_SIZE] / pieces;
    for (i64 x = 0; x < pieces; x++, here += each * bytes) {
      if (content == WIDENED)
        for (i64 i = 0; i < each * numbers; i++) put(here, i, wide, get(there + x * step, i, narrow));
      else if (content == DIAGONALS)
        expand(here, there + x * step, each, bytes);
      else
        memcpy(here, there + x * step, (size_t)(each * bytes));
    }
    fill(&here, in[I_X_PAD_AFTER], pattern, bytes);
  }
  fill(&here, width * in[I_Y_PAD_AFTER], pattern, bytes);
  counters[(in[I_ON_CHIP] ? K_MOVED : K_LOADED) + content] += moved;
  return OK;
}

static void multiply_rows(uint8_t *sums, const uint8_t *inputs, const uint8_t *weights) {
  i64 rows = config[C_ROWS], columns = config[C_COLUMNS];
  i64 input_bits = config[C_INPUT_BITS], weight_bits = config[C_WEIGHT_BITS];
  i64 sum_bits = config[C_ACCUMULATOR_BITS];
  if (input_bits == 8 && weight_bits == 8) {
    const int8_t *x = (const int8_t *)inputs, *w = (const int8_t *)weights;
    for (i64 j = 0; j < columns; j++, w += rows) {
      int32_t sum = 0;
      for (i64 k = 0; k < rows; k++) sum += x[k] * w[k];
      put(sums, j, sum_bits, get(sums, j, sum_bits) + sum);
    }
    return;
  }
  for (i64 j = 0; j < columns; j++) {
    int32_t sum = 0;
    for (i64 k = 0; k < rows; k++)
      sum += get(inputs, k, input_bits) * get(weights, j * rows + k, weight_bits);
    put(sums, j, sum_bits, get(sums, j, sum_bits) + sum);
  }
}

static void multiply_step(const i64 *in, i64 destination, i64 source, i64 weight, int replaces) {
  // With VTA's set an element holds the whole batch, else the batch goes over elements.
  i64 held = config[C_ROWS_PER_ELEMENT];
  i64 sum_bytes = SPACE(ACCUMULATORS, S_ELEMENT_BYTES);
  for (i64 b = 0; b < in[I_BATCH]; b++) {
    uint8_t *sums = element_of(ACCUMULATORS, destination + b * in[I_DESTINATION_STEP]);
    if (in[I_RESET] || replaces) memset(sums, 0, (size_t)sum_bytes);
    if (in[I_RESET]) continue;
    const uint8_t *inputs = element_of(ACTIVATIONS, source + b * in[I_SOURCE_STEP]);
    for (i64 row = 0; row < held; row++)
      multiply_rows(sums + row * (sum_bytes / held),
                    inputs + row * (SPACE(ACTIVATIONS, S_ELEMENT_BYTES) / held),
                    element_of(WEIGHTS, weight));
  }
}

static int32_t computed(i64 operation, int32_t x, i64 y) {
  switch (operation) {
    case MINIMUM: return x < y ? x : (int32_t)y;
    case MAXIMUM: return x > y ? x : (int32_t)y;
    case ADD: return x + (int32_t)y;
    case MULTIPLIED: return (int32_t)((i64)x * y);
    default:
      if (y >= 0) return x >> (y > 31 ? 31 : y);
      return y < -31 ? 0 : (int32_t)((uint32_t)x << -y);
  }
}

static i64 rounding_shift(i64 x, i64 shift, i64 rounding) {
  i64 below = x >> shift, rest = x - (below << shift);
  if (rounding == DOWN) return below;
  if (rounding == TO_ZERO) return below + (x < 0 && rest > 0);
  i64 half = shift ? (i64)1 << (shift - 1) : 1;
  int tie = rest == half;
  if (rounding == NEAREST_EVEN) tie = tie && (below & 1);
  if (rounding == NEAREST_AWAY) tie = tie && x >= 0;
  return below + (rest > half || tie);
}

static i64 requantized(i64 x, i64 multiplier, i64 shift) {
  shift = shift < 0 ? 0 : shift > 62 ? 62 : shift;
  i64 rounding = config[C_ROUNDING];
  if (config[C_SCHEME] == SHIFT) return rounding_shift(x, shift, rounding);
  if (config[C_SCHEME] == MULTIPLIER_SHIFT) return rounding_shift(x * multiplier, shift, rounding);
  i64 lifted = (int32_t)((uint64_t)x << (shift < 31 ? 31 - shift : 0));
  i64 high = (lifted * multiplier + ((i64)1 << 30)) >> 31;
  return rounding_shift(high, shift > 31 ? shift - 31 : 0, NEAREST_AWAY);
}

// Numbers of a row.
static i64 row_length(const i64 *in) {
  i64 columns = config[C_COLUMNS];
  return (in[I_COUNT] - 1) * columns + (in[I_VALID] < columns ? in[I_VALID] : columns);
}

static uint8_t *row_element(const i64 *in, i64 destination, i64 index) {
  return element_of(ACCUMULATORS, destination + index / config[C_COLUMNS] * in[I_STEP]);
}

static i64 row_get(const i64 *in, i64 destination, i64 index) {
  return get(row_element(in, destination, index), index % config[C_COLUMNS], 32);
}

static void row_put(const i64 *in, i64 destination, i64 index, i64 value) {
  value = value < in[I_LOW] ? in[I_LOW] : value > in[I_HIGH] ? in[I_HIGH] : value;
  put(row_element(in, destination, index), index % config[C_COLUMNS], 32, (int32_t)value);
}

// One row: its maximum, the sum of exponentials, one division, and the shares.
static void softmax_step(const i64 *in, i64 destination, i64 source) {
  i64 length = row_length(in), total = 0, half = (i64)1 << (SOFTMAX_BITS - 1);
  const uint8_t *exponentials = element_of(ACCUMULATORS, source + 2);
  i64 multiplier = get(element_of(ACCUMULATORS, source), 0, 32);
  i64 shift = get(element_of(ACCUMULATORS, source + 1), 0, 32);
  shift = shift < 0 ? 0 : shift > 62 ? 62 : shift;
  i64 greatest = INT32_MIN;
  for (i64 i = 0; i < length; i++) {
    i64 x = row_get(in, destination, i);
    if (x > greatest) greatest = x;
  }
  // Entries are read before any number is written: the list may lie under the row.
  int32_t table[EXPONENTIALS];
  memcpy(table, exponentials, sizeof table);
  for (int pass = 0; pass < 2; pass++) {
    i64 reciprocal = ((i64)1 << 2 * SOFTMAX_BITS) / (total > 1 ? total : 1);
    for (i64 i = 0; i < length; i++) {
      i64 distance = greatest - row_get(in, destination, i);
      i64 e = table[distance < 0 ? 0 : distance >= EXPONENTIALS ? EXPONENTIALS - 1 : distance];
      if (!pass) {
        total += e;
        continue;
      }
      i64 product = (i64)((uint64_t)e * (uint64_t)reciprocal + (uint64_t)half);
      int32_t share = (int32_t)(product >> SOFTMAX_BITS);
      i64 value = rounding_shift((i64)share * multiplier, shift, NEAREST_UP) + in[I_OFFSET];
      row_put(in, destination, i, value);
    }
  }
}

// The number of 64 bits whose halves lie in two elements.
static i64 whole(i64 low, i64 high, i64 index) {
  uint64_t upper = (uint32_t)get(element_of(ACCUMULATORS, high), index, 32);
  return (i64)(upper << 32 | (uint32_t)get(element_of(ACCUMULATORS, low), index, 32));
}

// floor(sqrt(x)) of less than 2^62, bit by bit.
static i64 square_root(i64 x) {
  i64 root = 0;
  for (i64 bit = (i64)1 << 30; bit; bit >>= 1)
    if ((root | bit) * (root | bit) <= x) root |= bit;
  return root;
}

// A product and a sum that wrap around, over a power of two to nearest, ties up.
static i64 scaled(i64 x, i64 factor, i64 added, i64 shift) {
  uint64_t half = shift ? (uint64_t)1 << (shift - 1) : 0;
  return (i64)((uint64_t)x * (uint64_t)factor + (uint64_t)added + half) >> shift;
}

// One row: its sums, a root, a division, and two multiplications of each number.
static void normalize_step(const i64 *in, i64 destination, i64 source) {
  i64 length = row_length(in), columns = config[C_COLUMNS], count = in[I_COUNT];
  uint64_t total = 0, squares = 0;
  for (i64 i = 0; i < length; i++) {
    i64 x = row_get(in, destination, i);
    total += (uint64_t)x;
    squares += (uint64_t)(x * x);
  }
  if (!in[I_CENTERED]) total = 0;
  uint64_t epsilon = (uint64_t)whole(source, source + 1, 0);
  i64 spread = (i64)((uint64_t)length * squares - total * total + epsilon);
  i64 top = ((i64)1 << 62) - 1, halves = 0, below = 0;
  spread = spread < 1 ? 1 : spread > top ? top : spread;
  for (; spread < (i64)1 << 60; spread <<= 2) halves++;
  for (i64 reached = 1; reached < length; reached <<= 2) below++;
  i64 reciprocal = ((i64)1 << 61) / square_root(spread), shift = 31 + below - halves;
  for (i64 i = 0; i < length; i++) {
    i64 element = i / columns, number = i % columns;
    i64 distance = (i64)((uint64_t)length * (uint64_t)row_get(in, destination, i) - total);
    i64 unit = scaled(distance, reciprocal, 0, shift), at = source + 2 + element;
    i64 factor = get(element_of(ACCUMULATORS, at), number, 32);
    i64 value = scaled(unit, factor, whole(at + count, at + 2 * count, number), in[I_SHIFT]);
    row_put(in, destination, i, (i64)((uint64_t)value + (uint64_t)in[I_OFFSET]));
  }
}

static void vector_step(const i64 *in, i64 destination, i64 source) {
  i64 bits = config[C_ACCUMULATOR_BITS];
  i64 numbers = config[C_COLUMNS] * config[C_ROWS_PER_ELEMENT];
  uint8_t *out = element_of(ACCUMULATORS, destination);
  const uint8_t *second = element_of(ACCUMULATORS, source);
  if (in[I_OPCODE] == VECTOR) {
    for (i64 i = 0; i < numbers; i++) {
      i64 y = in[I_USE_IMMEDIATE] ? in[I_IMMEDIATE] : get(second, i, bits);
      put(out, i, bits, computed(in[I_OPERATION], get(out, i, bits), y));
    }
  } else if (in[I_OPCODE] == TABLE) {
    i64 entries = config[C_TABLE_ENTRIES];
    const uint8_t *table = element_of(TABLES, in[I_TABLE]);
    for (i64 i = 0; i < numbers; i++) {
      i64 index = get(second, i, bits) + entries / 2;
      index = index < 0 ? 0 : index >= entries ? entries - 1 : index;
      put(out, i, bits, get(table, index, config[C_TABLE_BITS]));
    }
  } else {
    const uint8_t *shifts = element_of(ACCUMULATORS, source + 1);
    const uint8_t *biases = in[I_BIASED] ? element_of(ACCUMULATORS, source + 2) : NULL;
    for (i64 i = 0; i < numbers; i++) {
      if (biases) put(out, i, bits, computed(ADD, get(out, i, bits), get(biases, i, bits)));
      i64 value = requantized(get(out, i, bits), get(second, i, bits), get(shifts, i, bits));
      value += in[I_OFFSET];
      if (!in[I_WIDE])
        value = value < in[I_LOW] ? in[I_LOW] : value > in[I_HIGH] ? in[I_HIGH] : value;
      put(out, i, bits, (int32_t)value);
    }
  }
}

static i64 loop(i64 number, const i64 *in) {
  i64 count = in[I_MICRO_END] - in[I_MICRO_BEGIN], opcode = in[I_OPCODE];
  if (count <= 0 || !in[I_OUTER] || !in[I_INNER]) return OK;
  if (is_of_rows(opcode) && !in[I_COUNT]) return OK;
  i64 *counters = I64_AT(H_COUNTERS);
  i64 batch = opcode == MULTIPLY ? in[I_BATCH] : 1, held = config[C_ROWS_PER_ELEMENT];
  i64 each = batch * held * config[C_COLUMNS];
  if (is_of_rows(opcode)) each *= in[I_COUNT];
  if (opcode == MULTIPLY && !in[I_RESET]) each *= config[C_ROWS];
  if (each < 1) each = 1;
  // As a double, for the product of the fields may have more than 64 bits.
  double work = (double)in[I_OUTER] * (double)in[I_INNER] * (double)count * (double)each;
  if (work > (double)(header[H_MAX_WORK] - header[H_WORK]))
    return fault(number, FAULT_WORK, 0, header[H_WORK], header[H_MAX_WORK]);
  i64 steps = in[I_OUTER] * in[I_INNER] * count;
  header[H_WORK] += steps * each;
  if (opcode != MULTIPLY) counters[K_VECTOR] += steps * each;
  else if (!in[I_RESET]) counters[K_MACS] += steps * each;
  for (i64 i = 0; i < in[I_OUTER]; i++)
    for (i64 j = 0; j < in[I_INNER]; j++)
      for (i64 k = in[I_MICRO_BEGIN]; k < in[I_MICRO_END]; k++) {
        i64 destination = micro_field(k, 0) + i * in[I_DESTINATION_OUTER] + j * in[I_DESTINATION_INNER];
        i64 source = micro_field(k, 1) + i * in[I_SOURCE_OUTER] + j * in[I_SOURCE_INNER];
        if (opcode != MULTIPLY) {
          // An immediate needs no source, whose index then need not lie inside.
          if (opcode == SOFTMAX) softmax_step(in, destination, source);
          else if (opcode == NORMALIZE) normalize_step(in, destination, source);
          else vector_step(in, destination, opcode == VECTOR && in[I_USE_IMMEDIATE] ? destination : source);
        } else {
          i64 weight = micro_field(k, 2) + i * in[I_WEIGHT_OUTER] + j * in[I_WEIGHT_INNER];
          multiply_step(in, destination, source, weight, in[I_REPLACE] && micro_field(k, 3));
        }
      }
  return OK;
}

static i64 execute(i64 number, const i64 *in) {
  header[H_PROGRESS] = number;
  i64 status = check_bounds(number, in);
  if (status || in[I_OPCODE] == FINISH) return status;
  return in[I_OPCODE] <= STORE ? transfer(number, in) : loop(number, in);
}

// Copies what is wanted of global memory, or of the chip, after an instruction; `first` is -1 where nothing is.
static void read_taps(i64 number, i64 first) {
  for (i64 t = first; t >= 0 && t < header[H_TAP_COUNT]; t++) {
    const i64 *tap = I64_AT(H_TAPS) + t * TAP_FIELDS;
    if (tap[T_INSTRUCTION] != number) return;
    const uint8_t *from = tap[T_ON_CHIP] ? scratchpad(ACTIVATIONS) : base + header[H_IMAGE];
    memcpy(base + header[H_TAPPED] + tap[T_TO], from + tap[T_FROM], (size_t)tap[T_BYTES]);
  }
}
