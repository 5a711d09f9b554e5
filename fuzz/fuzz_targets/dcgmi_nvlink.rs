#![no_main]

peerlane_fuzz::fuzz!(dcgmi_nvlink);
