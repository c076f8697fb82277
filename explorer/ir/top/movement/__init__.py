"""Operations that compute nothing: the same elements in another shape, order or place."""
