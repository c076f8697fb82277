"""What static views are made of: tables, bars, frames, SVG, markup, plain text."""
