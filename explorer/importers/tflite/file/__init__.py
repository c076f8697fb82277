"""Reading `.tflite` files: the flatbuffer within bounds, as records."""
