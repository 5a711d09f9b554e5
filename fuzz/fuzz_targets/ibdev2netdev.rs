#![no_main]

peerlane_fuzz::fuzz!(ibdev2netdev);
