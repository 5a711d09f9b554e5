#![no_main]

peerlane_fuzz::fuzz!(mst_status);
