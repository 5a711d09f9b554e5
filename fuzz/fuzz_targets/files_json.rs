#![no_main]

peerlane_fuzz::fuzz!(files_json);
