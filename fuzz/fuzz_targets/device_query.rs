#![no_main]

peerlane_fuzz::fuzz!(device_query);
