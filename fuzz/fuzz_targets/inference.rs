#![no_main]

peerlane_fuzz::fuzz!(inference);
