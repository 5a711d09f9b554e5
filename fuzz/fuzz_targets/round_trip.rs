#![no_main]

peerlane_fuzz::fuzz!(round_trip);
