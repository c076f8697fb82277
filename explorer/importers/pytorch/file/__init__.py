"""Reading `.pt2` archives: zip, JSON, weights, expressions of sizes, and what writes into what."""
