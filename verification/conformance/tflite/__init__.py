"""Seeded TFLite models of one operator, judged by LiteRT."""
