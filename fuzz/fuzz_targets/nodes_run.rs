#![no_main]

peerlane_fuzz::fuzz!(nodes_run);
