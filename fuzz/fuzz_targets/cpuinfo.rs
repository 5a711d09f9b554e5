#![no_main]

peerlane_fuzz::fuzz!(cpuinfo);
