#![no_main]

peerlane_fuzz::fuzz!(nvbandwidth_json);
