#![no_main]

peerlane_fuzz::fuzz!(rocm_smi);
