#![no_main]

peerlane_fuzz::fuzz!(numactl);
