"""Operations that make one number of many: sums, extremes, normalizations."""
