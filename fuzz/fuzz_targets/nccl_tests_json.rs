#![no_main]

peerlane_fuzz::fuzz!(nccl_tests_json);
