#![no_main]

peerlane_fuzz::fuzz!(rate_table);
