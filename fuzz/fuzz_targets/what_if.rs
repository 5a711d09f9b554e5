#![no_main]

peerlane_fuzz::fuzz!(what_if);
