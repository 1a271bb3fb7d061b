//! Records on disk and on screen: Parquet, terminal, JSON, and what they are rendered from.
