#![no_main]

peerlane_fuzz::fuzz!(bandwidth_test);
