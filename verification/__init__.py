"""Tools that judge the compiler on many models. Of the repository: the wheel has none of it."""
