#![no_main]

peerlane_fuzz::fuzz!(judge);
