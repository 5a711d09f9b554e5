#![no_main]

peerlane_fuzz::fuzz!(modules);
