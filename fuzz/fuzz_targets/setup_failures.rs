#![no_main]

peerlane_fuzz::fuzz!(setup_failures);
