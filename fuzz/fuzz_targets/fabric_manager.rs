#![no_main]

peerlane_fuzz::fuzz!(fabric_manager);
