#![no_main]

peerlane_fuzz::fuzz!(growing_run);
