#![no_main]

peerlane_fuzz::fuzz!(nvidia_smi_csv);
