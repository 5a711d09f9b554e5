#![no_main]

peerlane_fuzz::fuzz!(p2p_test);
