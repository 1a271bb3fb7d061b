//! gpubench: coordinator, tenants and reports behind one command line.
