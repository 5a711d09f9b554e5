#![no_main]

peerlane_fuzz::fuzz!(simple_p2p);
