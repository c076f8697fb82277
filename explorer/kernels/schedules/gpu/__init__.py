"""Schedules for GPUs: tiles, rows, products, tensor cores."""
