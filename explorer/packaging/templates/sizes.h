
// What an input or output is for these sizes: its shape and its size in bytes.
int @name@_input_at(int number, @declared@, struct @name@_tensor *tensor);
int @name@_output_at(int number, @declared@, struct @name@_tensor *tensor);
