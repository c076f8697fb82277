"""What the families of operations share: shapes, checks of operands, kinds."""
