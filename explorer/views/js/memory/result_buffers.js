// The buffer of each result. Nothing is drawn here.

export const SCRATCH = /\/scratch_(\d+)$/;

// Map(value -> its buffer). Scratch memory of an operation, "conv2/scratch_0", names the operation
// as well, and is no place of its result.
export function resultBuffers(buffers) {
  const found = new Map();
  for (const buffer of buffers)
    if (!SCRATCH.test(buffer.id)) for (const value of buffer.values) found.set(value, buffer);
  return found;
}
