#![no_main]

peerlane_fuzz::fuzz!(amd_smi);
