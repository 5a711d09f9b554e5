#![no_main]

peerlane_fuzz::fuzz!(text);
