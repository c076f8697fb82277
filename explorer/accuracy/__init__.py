"""Trust: every snapshot is executed and compared, tensor by tensor, with the source model."""
