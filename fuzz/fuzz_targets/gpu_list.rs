#![no_main]

peerlane_fuzz::fuzz!(gpu_list);
