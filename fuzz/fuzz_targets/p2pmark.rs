#![no_main]

peerlane_fuzz::fuzz!(p2pmark);
