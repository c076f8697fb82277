"""Every operator on every element type that its schema and the importer know, judged by others."""
