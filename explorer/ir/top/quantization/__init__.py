"""Operations on quantized numbers, and what products of them share."""
