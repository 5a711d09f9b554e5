#![no_main]

peerlane_fuzz::fuzz!(rocm_bandwidth_test);
